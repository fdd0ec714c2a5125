#include "launch/option_names.h"

#include <array>
#include <string_view>
#include <utility>

namespace tp {

std::string with_flags(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 23> kFlags = {{
      {"`weights`", "--weights"},
      {"`kv_type`", "--kv-type"},
      {"`prefill_chunk`", "--prefill-chunk"},
      {"`max_sequences`", "--max-batch"},
      {"`max_length`", "--max-length"},
      {"`max_tokens`", "--max-tokens"},
      {"`cache_tokens`", "--cache-tokens"},
      {"`threads`", "--threads"},
      {"`timeout`", "--timeout"},
      {"`step_ms`", "--step-ms"},
      {"`max_queue`", "--max-queue"},
      {"`max_queue_tokens`", "--max-queue-tokens"},
      {"`output`", "--output"},
      {"`same_bits`", "--same-bits"},
      {"`wire`", "--wire"},
      {"`two_batch_overlap`", "--two-batch-overlap"},
      {"`steps`", "--steps"},
      {"`block_length`", "--block-length"},
      {"`unmask`", "--unmask"},
      {"`unmask_cache`", "--unmask-cache"},
      {"`threshold`", "--threshold"},
      {"`draft_history`", "--draft-history"},
      {"`favor_features` 0", "--attention exact"},
  }};
  for (const auto& [field, flag] : kFlags) {
    for (std::size_t at = text.find(field); at != std::string::npos; at = text.find(field, at + flag.size()))
      text.replace(at, field.size(), flag);
  }
  return text;
}

}  // namespace tp
