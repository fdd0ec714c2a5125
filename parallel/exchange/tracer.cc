#include "parallel/exchange/tracer.h"

#include "parallel/exchange/collectives.h"

namespace tp {

void Tracer::start() {
  on_ = true;
  trace_ = {};
  watch_.restart();
}

void Tracer::add(const TraceEvent& event) {
  if (trace_.events.size() < kCapacity) {
    trace_.events.push_back(event);
  } else {
    trace_.dropped += 1;
  }
}

std::vector<RankTrace> gather_traces(Communicator& comm) {
  const RankTrace own = comm.tracer().trace();  // a copy, because the calls below add events
  struct Header {
    std::uint64_t events;
    std::uint64_t dropped;
  };
  const std::vector<Header> headers = gather_values(comm, Header{own.events.size(), own.dropped});
  // gather_bytes needs the same size on every rank.
  const auto longest =
      static_cast<std::size_t>(max_over_ranks(comm, static_cast<std::int64_t>(own.events.size())));
  std::vector<TraceEvent> padded = own.events;
  padded.resize(longest);
  std::vector<TraceEvent> all(comm.is_root() ? longest * comm.size() : 0);
  gather_bytes(comm, std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  std::vector<RankTrace> traces;
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * longest);
    traces.push_back(
        {{begin, begin + static_cast<std::ptrdiff_t>(headers[rank].events)}, headers[rank].dropped});
  }
  return traces;
}

}  // namespace tp
