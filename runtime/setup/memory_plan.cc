#include "runtime/setup/memory_plan.h"

#include "parallel/machine/available_memory.h"
#include "runtime/text/format_bytes.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

namespace tp {
namespace {

// The smallest useful cache, unless sequences are shorter.
constexpr std::size_t kMinTokens = 2048;

// Buffers and allocators reserve more address space than they use if enough is available.
constexpr std::uint64_t kReservedAddresses = std::uint64_t{512} << 20;

// Ranks with a common limit: the memory of their host, or the address space of a single rank.
struct Pool {
  std::vector<std::size_t> ranks{};
  MemoryNeed need{};
  std::uint64_t available = UINT64_MAX;
  std::uint64_t reserve = 0;  // bytes to leave unused
  bool is_host = true;
  std::string host{};
  std::string limit{};

  void add(std::size_t rank, const MemoryNeed& more) {
    ranks.push_back(rank);
    need += more;
  }
  // Bytes that are missing for a cache of this many blocks.
  std::uint64_t lacks(std::uint64_t blocks) const { return lacks(need, blocks); }
  std::uint64_t lacks(const MemoryNeed& other, std::uint64_t blocks) const {
    const std::uint64_t bytes = other.with_blocks(blocks);
    return bytes > available ? bytes - available : 0;
  }
  // Whether the weights can be loaded, regardless of later needs.
  bool can_load() const { return while_loading(need) <= available; }
  // Number of cache blocks that fit.
  std::uint64_t room() const {
    const std::uint64_t taken = without_cache(need) + reserve;
    if (available <= taken) return 0;
    return need.cache_block == 0 ? UINT64_MAX : (available - taken) / need.cache_block;
  }
};

std::vector<Pool> pools_of(std::span<const RankMemory> ranks, const Placement& placement) {
  std::vector<Pool> pools;
  for (const std::vector<std::size_t>& on_host : placement.hosts) {
    const std::string& name = placement.processes[on_host.front()].host;
    Pool host{.host = name};
    for (const std::size_t rank : on_host) {
      const RankMemory& memory = ranks[rank];
      host.add(rank, memory.need);
      if (memory.memory < host.available) {
        host.available = memory.memory;
        host.limit = memory.memory_limit;
      }
      if (memory.addresses == UINT64_MAX) continue;
      Pool& own = pools.emplace_back(Pool{.available = memory.addresses,
                                          .reserve = kReservedAddresses,
                                          .is_host = false,
                                          .host = name,
                                          .limit = "ulimit -v"});
      MemoryNeed mapped = memory.need;
      mapped.cache_block = mapped.whole_block;
      own.add(rank, mapped);
    }
    pools.push_back(std::move(host));
  }
  return pools;
}

// Number of tokens that all sequences together can have in this many blocks.
std::size_t tokens_in(const EnginePlan& plan, const Footprint& footprint, std::uint64_t blocks) {
  return plan.cache_shape(footprint.groups())
      .tokens_in(blocks, plan.options.max_sequences, plan.longest_sequence());
}

// Number of sequences whose states fit, if the states are what exceeds memory; else 0.
std::size_t sequences_that_fit(const EnginePlan& plan, const std::vector<Pool>& pools, std::uint64_t blocks) {
  std::uint64_t fit = plan.options.max_sequences;
  for (const Pool& pool : pools) {
    const std::uint64_t missing = pool.lacks(blocks);
    if (missing == 0) continue;
    if (missing >= pool.need.states || !pool.can_load()) return 0;
    fit = std::min(fit, plan.options.max_sequences * (pool.need.states - missing) / pool.need.states);
  }
  return fit < plan.options.max_sequences ? fit : 0;
}

// The largest smaller number of ranks that fits on a single host, because each rank has its own buffers; else
// 0.
std::size_t fewer_ranks_that_fit(const EnginePlan& plan, const Footprint& footprint,
                                 std::span<const RankMemory> all, const Pool& full, std::uint64_t blocks) {
  if (plan.options.pipeline != 1 || !plan.options.split.empty() || !full.is_host ||
      full.ranks.size() != all.size())
    return 0;
  const auto fits = [&](std::size_t ranks) {
    MemoryNeed need;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      need += footprint.of({rank, ranks});
      need += all[rank].beside;
    }
    return full.lacks(need, blocks) == 0;
  };
  if (all.size() == 1 || !fits(1)) return 0;
  std::size_t enough = 1;
  for (std::size_t too_many = all.size(); too_many - enough > 1;) {
    const std::size_t middle = enough + (too_many - enough) / 2;
    (fits(middle) ? enough : too_many) = middle;
  }
  return enough;
}

// Changes that would make a cache of this many blocks fit.
std::vector<std::string> remedies(const EnginePlan& plan, const Footprint& footprint,
                                  std::span<const RankMemory> all, const std::vector<Pool>& pools,
                                  const Pool& full, std::uint64_t blocks) {
  const std::size_t ranks = all.size() / plan.options.pipeline;  // ranks per stage
  const auto need_of = [&](const Pool& pool, WeightType type) {
    MemoryNeed need;
    for (const std::size_t rank : pool.ranks) {
      const RankMemory& memory = all[rank];
      need += footprint.of({memory.tensor_rank, ranks}, type, {memory.stage, plan.options.pipeline});
      need += memory.beside;
    }
    return need;
  };
  std::vector<std::string> found;
  for (const WeightType type : {WeightType::bf16, WeightType::int8, WeightType::int4}) {
    const bool fit = std::ranges::all_of(
        pools, [&](const Pool& pool) { return pool.lacks(need_of(pool, type), blocks) == 0; });
    if (!fit || need_of(full, type).weights >= full.need.weights) continue;
    found.push_back(fmt::format("`weights` {}", name_of(type)));
    break;
  }
  // If a host's memory is short, only more hosts help. The first ranks have the largest shares.
  const std::size_t step = full.is_host ? ranks : 1;
  const auto fits = [&](std::size_t more) {
    MemoryNeed need;
    for (std::size_t rank = 0; rank < full.ranks.size(); ++rank) {
      need += footprint.of({rank, more});
      need += all[full.ranks[rank]].beside;
    }
    return full.lacks(need, blocks) == 0;
  };
  // The need per rank falls with the number of ranks, so bisection finds the smallest number.
  std::size_t too_few = ranks / step;  // as a multiple of `step`, like `enough`
  std::size_t enough = plan.config.num_attention_heads / step;
  if (plan.options.pipeline == 1 && enough > too_few && fits(enough * step)) {
    while (enough - too_few > 1) {
      const std::size_t middle = too_few + (enough - too_few) / 2;
      (fits(middle * step) ? enough : too_few) = middle;
    }
    found.push_back(fmt::format("{} ranks", enough * step));
    if (full.is_host) found.back() += fmt::format(" on {} times as many hosts", enough);
  }
  if (const std::size_t fewer = fewer_ranks_that_fit(plan, footprint, all, full, blocks); fewer > 0)
    found.push_back(fmt::format("{} rank{}", fewer, fewer == 1 ? "" : "s"));
  if (const std::size_t sequences = sequences_that_fit(plan, pools, blocks); sequences > 0)
    found.push_back(fmt::format("`max_sequences` {}", sequences));
  const std::uint64_t room = std::ranges::min(pools, {}, &Pool::room).room();
  const std::size_t tokens =
      std::ranges::all_of(pools, &Pool::can_load) ? tokens_in(plan, footprint, std::min(room, blocks)) : 0;
  if (tokens > 0) found.push_back(fmt::format("a smaller cache (`cache_tokens` {})", tokens));
  return found;
}

// The parts of the peak, which occurs while loading or with a cache of this many blocks.
std::string parts_of(const MemoryNeed& need, std::uint64_t blocks, std::size_t tokens) {
  const std::string weights = format_bytes(need.weights);
  const std::string other = format_bytes(need.other);
  if (while_loading(need) >= without_cache(need) + blocks * need.cache_block)
    return fmt::format("weights {}, buffers to load them {}, other {}", weights, format_bytes(need.loading),
                       other);
  return fmt::format("weights {}, workspace {}, a cache of {} tokens {}, {}other {}", weights,
                     format_bytes(need.workspace), tokens, format_bytes(blocks * need.cache_block),
                     need.states == 0 ? std::string() : fmt::format("states {}, ", format_bytes(need.states)),
                     other);
}

[[noreturn]] void refuse(const Pool& pool, std::uint64_t blocks, std::size_t tokens,
                         const std::vector<std::string>& would_fit) {
  throw_error<ConfigError>(
      "cannot load the model: {} on {} would need {} of memory ({}), but only {} are available ({}); {}",
      pool.is_host ? fmt::format("{} rank{}", pool.ranks.size(), pool.ranks.size() == 1 ? "" : "s")
                   : fmt::format("rank {}", pool.ranks.front()),
      pool.host, format_bytes(pool.need.with_blocks(blocks)), parts_of(pool.need, blocks, tokens),
      format_bytes(pool.available), pool.limit,
      would_fit.empty() ? "use a smaller model, or hosts with more memory"
                        : fmt::format("what would fit: {}", fmt::join(would_fit, "; or ")));
}

}  // namespace

RankMemory describe_memory(const Footprint& footprint, TpRank tp, Stage stage, const MemoryNeed& beside) {
  const AvailableMemory available = available_memory();
  RankMemory memory{.need = footprint.of(tp, {}, stage),
                    .memory = available.bytes,
                    .addresses = available_addresses(),
                    .tensor_rank = tp.rank,
                    .stage = stage.index,
                    .beside = beside};
  memory.need += beside;
  available.limit.copy(memory.memory_limit, sizeof(memory.memory_limit) - 1);
  return memory;
}

std::uint64_t tables_on(std::span<const RankMemory> ranks, std::span<const std::size_t> host) {
  std::map<std::uint64_t, std::uint64_t> of_stages;
  for (const std::size_t rank : host) {
    std::uint64_t& tables = of_stages[ranks[rank].stage];
    tables = std::max(tables, ranks[rank].need.tables);
  }
  std::uint64_t sum = 0;
  for (const auto& [stage, tables] : of_stages) sum += tables;
  return sum;
}

bool lacks_room_for_tables(std::span<const RankMemory> ranks, const Placement& placement) {
  return std::ranges::any_of(placement.hosts, [&](const std::vector<std::size_t>& host) {
    MemoryNeed need;
    std::uint64_t available = UINT64_MAX;
    for (const std::size_t rank : host) {
      need += ranks[rank].need;
      available = std::min(available, ranks[rank].memory);
    }
    return need.tables != 0 && without_cache(need) + tables_on(ranks, host) > available;
  });
}

CachePlan plan_cache(const EnginePlan& plan, const Footprint& footprint, std::span<const RankMemory> ranks,
                     const Placement& placement, std::size_t tokens) {
  const CacheShape shape = plan.cache_shape(footprint.groups());
  const std::uint64_t longest = shape.blocks_for(plan.longest_sequence());
  const std::uint64_t wanted = tokens != 0 ? shape.blocks_for(tokens, plan.options.max_sequences)
                                           : plan.options.max_sequences * longest;
  const std::uint64_t min = std::min({wanted, longest, shape.blocks_for(kMinTokens)});
  const std::vector<Pool> pools = pools_of(ranks, placement);
  const Pool& full = *std::ranges::max_element(pools, {}, [&](const Pool& pool) { return pool.lacks(min); });
  if (full.lacks(min) > 0)
    refuse(full, min, shape.tokens_in(min, 1, plan.longest_sequence()),
           remedies(plan, footprint, ranks, pools, full, min));

  const Pool& tight = *std::ranges::min_element(pools, {}, &Pool::room);
  CachePlan cache;
  cache.blocks = std::min(wanted, std::max(tokens != 0 ? tight.room() : tight.room() / 2, min));
  if (cache.blocks >= (tokens != 0 ? wanted : longest)) return cache;
  cache.notice = fmt::format(
      "the KV cache has room for {} tokens instead of {}: {} has {} of memory ({}), of which everything "
      "except the cache takes {}; smaller types (`weights`, `kv_type`) or more hosts leave more memory for "
      "it",
      tokens != 0 ? tokens_in(plan, footprint, cache.blocks)
                  : shape.tokens_in(cache.blocks, 1, plan.longest_sequence()),
      tokens != 0 ? fmt::format("{}", tokens)
                  : fmt::format("the {} of the longest sequence", plan.longest_sequence()),
      tight.host, format_bytes(tight.available), tight.limit,
      format_bytes(without_cache(tight.need) + tight.reserve));
  return cache;
}

}  // namespace tp
