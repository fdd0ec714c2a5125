#include "runtime/sampling/shard_row.h"

#include "parallel/exchange/collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tp {
namespace {

// Header of a row on the wire. Space for size.tokens and size.best entries follows; the header counts the
// used entries.
struct Header {
  ExpSums sums;
  double score = 0.0;
  std::uint32_t usable = 0;
  std::uint32_t tokens = 0;
  std::uint32_t best = 0;
};

std::size_t bytes_of(const ShardRowSize& size) {
  return sizeof(Header) + size.tokens * sizeof(ShardToken) + size.best * sizeof(Candidate);
}

template <class T>
void write(const std::vector<T>& values, std::byte* out) {
  // Not memcpy, which must not get the null pointer of an empty vector.
  std::ranges::copy(std::as_bytes(std::span(values)), out);
}

template <class T>
std::vector<T> read(const std::byte* in, std::size_t count) {
  std::vector<T> values(count);
  std::copy_n(in, count * sizeof(T), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

void write_row(const ShardRow& row, const ShardRowSize& size, std::byte* out) {
  const Header header{row.sums, row.score, row.usable ? 1U : 0U,
                      static_cast<std::uint32_t>(row.tokens.size()),
                      static_cast<std::uint32_t>(row.best.size())};
  std::memcpy(out, &header, sizeof(header));
  write(row.tokens, out + sizeof(header));
  write(row.best, out + sizeof(header) + size.tokens * sizeof(ShardToken));
}

ShardRow read_row(const ShardRowSize& size, const std::byte* in) {
  Header header;
  std::memcpy(&header, in, sizeof(header));
  const std::byte* const tokens = in + sizeof(header);
  return {.usable = header.usable != 0,
          .sums = header.sums,
          .score = header.score,
          .tokens = read<ShardToken>(tokens, header.tokens),
          .best = read<Candidate>(tokens + size.tokens * sizeof(ShardToken), header.best)};
}

}  // namespace

std::vector<std::vector<ShardRow>> gather_rows(Communicator& comm, std::span<const ShardRow> rows,
                                               std::span<const ShardRowSize> sizes) {
  std::vector<std::size_t> offsets = {0};
  for (const ShardRowSize& size : sizes) offsets.push_back(offsets.back() + bytes_of(size));
  std::vector<std::byte> local(offsets.back());
  for (std::size_t i = 0; i < rows.size(); ++i) write_row(rows[i], sizes[i], local.data() + offsets[i]);
  std::vector<std::byte> all(comm.is_root() ? local.size() * comm.size() : 0);
  gather_bytes(comm, local, all);
  if (!comm.is_root()) return {};

  std::vector<std::vector<ShardRow>> parts(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t rank = 0; rank < comm.size(); ++rank)
      parts[i].push_back(read_row(sizes[i], all.data() + rank * local.size() + offsets[i]));
  }
  return parts;
}

bool usable(std::span<const ShardRow> parts) {
  return std::ranges::all_of(parts, [](const ShardRow& part) { return part.usable; });
}

ExpSums sums_of(std::span<const ShardRow> parts) {
  std::vector<ExpSums> sums;
  for (const ShardRow& part : parts) sums.push_back(part.sums);
  return merged(sums);
}

std::vector<TokenLogprob> best_of(std::span<const ShardRow> parts, std::size_t count) {
  std::vector<Candidate> all;
  for (const ShardRow& part : parts) all.insert(all.end(), part.best.begin(), part.best.end());
  std::sort(all.begin(), all.end(), more_likely);
  all.resize(std::min(count, all.size()));
  const double log_sum_exp = sums_of(parts).log_sum_exp();
  std::vector<TokenLogprob> best;
  for (const Candidate& token : all)
    best.push_back({token.id, static_cast<float>(token.logit - log_sum_exp)});
  return best;
}

}  // namespace tp
