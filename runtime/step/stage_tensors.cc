#include "runtime/step/stage_tensors.h"

#include "model/weights/unused_tensors.h"
#include "parallel/exchange/archive.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"

#include <algorithm>
#include <iterator>
#include <span>

#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>

namespace tp {
namespace {

// Gathers every rank's text on rank 0.
std::vector<std::string> gather_texts(Communicator& comm, const std::string& own) {
  const std::vector<std::size_t> sizes = gather_values(comm, own.size());
  std::vector<std::string> all;
  for (const std::size_t size : sizes) all.emplace_back(size, '\0');
  std::vector<std::span<const std::byte>> to(comm.size());
  std::vector<std::span<std::byte>> from(comm.size());
  if (!comm.is_root()) to[0] = std::as_bytes(std::span(own));
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    from[rank] = std::as_writable_bytes(std::span(all[rank]));
  exchange_parts(comm, to, from);
  if (comm.is_root()) all.front() = own;
  return all;
}

std::vector<std::string> in_both(std::vector<std::string> one, std::vector<std::string> other) {
  std::ranges::sort(one);
  std::ranges::sort(other);
  std::vector<std::string> common;
  std::ranges::set_intersection(one, other, std::back_inserter(common));
  return common;
}

}  // namespace

std::vector<std::string> unused_by_all_stages(Communicator& world, Pipeline& pipeline,
                                              const TensorNames& names, const WeightSource& source,
                                              const std::vector<std::string>& unread) {
  const bool speaks = pipeline.tensor().is_root();  // this rank reports for its stage
  const std::vector<std::string> texts = gather_texts(world, speaks ? to_archive(unread) : std::string());
  std::vector<std::string> unused;
  fail_together(world, [&] {
    if (!world.is_root()) return;
    unused = unread;
    for (const std::string& text : texts) {
      if (text.empty()) continue;
      std::vector<std::string> of_stage;
      from_archive(text, of_stage);
      unused = in_both(std::move(unused), std::move(of_stage));
    }
    unused = find_unused_tensors(names, source, unused);
  });
  return unused;
}

}  // namespace tp
