#include "launch/ranks/rank_map.h"

#include "launch/common/message.h"
#include "launch/common/table.h"
#include "launch/common/version_text.h"
#include "launch/ranks/numa_report.h"
#include "model/kernels/simd/isa.h"
#include "parallel/exchange/mpi_session.h"
#include "parallel/machine/binding.h"
#include "runtime/text/format_bytes.h"

#include <fmt/ranges.h>

namespace tp {

namespace {

// Returns the shares of the checkpoint that all ranks together used and read.
std::string text_of_reads(const EngineInfo& info, const std::vector<RankReport>& reports) {
  if (info.from_packed_cache) return "all ranks loaded their weights from the packed cache\n";
  if (info.stored_bytes == 0) return {};
  std::uint64_t used = 0;
  std::uint64_t read = 0;
  bool is_counted = true;
  for (const RankReport& report : reports) {
    used += report.bytes_used;
    read += report.bytes_from_storage.value_or(0);
    is_counted = is_counted && report.bytes_from_storage;
  }
  const auto share = [&](std::uint64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(info.stored_bytes);
  };
  return fmt::format("the checkpoint has {}, of which all ranks together used {:.3f} x{}\n",
                     format_bytes(info.stored_bytes), share(used),
                     is_counted ? fmt::format(" and read {:.3f} x from disk", share(read)) : "");
}

// Returns the tables that a draft layer shares with the model, so they need no memory.
std::string text_of_tables(const DraftInfo& draft) {
  if (!draft.uses_embedding && !draft.uses_head) return {};
  const char* const tables = !draft.uses_head        ? "embedding"
                             : !draft.uses_embedding ? "LM head"
                                                     : "embedding and LM head";
  return fmt::format("; it uses the model's {}", tables);
}

std::string kind_of(const DraftInfo& draft) {
  if (draft.is_layer) return "layer for multi-token prediction of";
  if (draft.drafter.empty()) return "draft model";
  return fmt::format("{} drafter, which reads the streams after {} layers,", draft.drafter,
                     fmt::join(draft.captured_places, ", "));
}

}  // namespace

void print_rank_map(Engine& engine) {
  const EngineInfo& info = engine.info();
  print_note(fmt::format("{} on {}, kernels {}\n", version_text(), mpi_library(),
                         kernels::name_of(kernels::active_isa())));
  if (info.options.same_bits)
    print_note(fmt::format("--same-bits: as from any ranks with this program and kernels for {}{}\n",
                           kernels::name_of(kernels::active_isa()),
                           kernels::bf16_pairs_are_fast() ? ", multiplying bf16 in pairs" : ""));
  print_note(fmt::format(
      "{}, {} parameters, loaded in {:.2f} s; cache of {} tokens{}, sequences of at most {}\n",
      info.config.architecture, info.parameters, info.load_time.count(), info.options.cache_tokens,
      info.states == 0 ? std::string()
                       : fmt::format(" and {} states of recurrent layers ({} on rank 0)", info.states,
                                     format_bytes(info.state_bytes)),
      info.options.max_length));
  if (info.draft) {
    print_note(fmt::format("{} {}, {} parameters, on {}; on rank 0 weights {}, cache {}, workspace {}{}\n",
                           kind_of(*info.draft), info.draft->config.architecture, info.draft->parameters,
                           info.draft->ranks == 1 ? "rank 0" : fmt::format("all {} ranks", info.draft->ranks),
                           format_bytes(info.draft->weight_bytes), format_bytes(info.draft->cache_bytes),
                           format_bytes(info.draft->workspace_bytes), text_of_tables(*info.draft)));
  }
  if (const auto& widened = widen_default_binding()) {
    print_note(
        fmt::format("mpirun bound each rank to {} of the host's cores by default; each now has its share, {} "
                    "(--bind-to core keeps the binding)\n",
                    widened->from, widened->to));
  }
  Table table({"rank", "host", "cores", "threads", "from disk", "weights", "cache", "workspace", "peak RSS"});
  std::size_t rank = 0;
  const std::vector<RankReport> reports = engine.reports();
  for (const RankReport& report : reports) {
    table.add({fmt::to_string(rank++), report.host, fmt::to_string(report.cores),
               fmt::to_string(report.threads),
               report.bytes_from_storage ? format_bytes(*report.bytes_from_storage) : "unknown",
               format_bytes(report.weight_bytes), format_bytes(report.cache_bytes),
               format_bytes(report.workspace_bytes), format_bytes(report.peak_resident_bytes)});
  }
  print_note(fmt::format("{}", table.text()));
  print_note(text_of_reads(info, reports));
  print_note(numa_text(reports));
  for (const std::string& warning : numa_warnings(reports)) print_message(warning);
}

void print_cache_nodes(Engine& engine) {
  const std::vector<RankReport> reports = engine.reports();
  if (!has_numa(reports)) return;
  print_note(numa_text(reports, {kNumaCache}));
  for (const std::string& warning : numa_warnings(reports, {kNumaCache})) print_message(warning);
}

}  // namespace tp
