#include "runtime/setup/packed_weights.h"

#include "parallel/exchange/agreement.h"
#include "parallel/exchange/fail_together.h"

#include <optional>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::string_view kNone = "there is none yet";

std::string state_of(const PackedCache& cache) {
  if (cache.reads()) return {};
  return cache.unusable_because().empty() ? std::string(kNone) : cache.unusable_because();
}

std::string notice_of(const RankError& why) {
  if (why.text == kNone) return {};
  return fmt::format("the weights are packed again, because the packed cache of rank {} cannot be used: {}",
                     why.rank, why.text);
}

}  // namespace

PackedWeights load_through_cache(Communicator& comm, PackedCache& cache, const std::function<void()>& load) {
  PackedWeights result;
  std::string damage;
  const auto load_once = [&] {
    fail_together(comm, [&] {
      try {
        load();
      } catch (const PackedCacheError& error) {
        damage = error.what();
      }
    });
  };
  std::optional<RankError> unusable = first_error(comm.exchange(), state_of(cache));
  if (!unusable) {
    load_once();
    unusable = first_error(comm.exchange(), damage);
    result.were_read = !unusable;
  }
  if (!unusable) return result;
  result.notice = notice_of(*unusable);
  fail_together(comm, [&] { cache.rebuild(); });
  load_once();
  if (const std::optional<RankError> error = first_error(comm.exchange(), cache.finish()))
    result.notice =
        fmt::format("the packed weights of rank {} could not be kept: {}", error->rank, error->text);
  return result;
}

}  // namespace tp
