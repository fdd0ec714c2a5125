#include "launch/ranks/engine_notices.h"

#include "launch/common/message.h"
#include "launch/common/option_names.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <fmt/ranges.h>

namespace tp {

namespace {

// Returns a few names unchanged. Summarizes many names, for example a vision tower's, by part of the
// checkpoint: "vision_tower (439 tensors)".
std::vector<std::string> by_part(const std::vector<std::string>& tensors) {
  constexpr std::size_t kFew = 4;
  if (tensors.size() <= kFew) return tensors;
  const std::string whole = "model.";
  std::map<std::string, std::size_t> parts;
  for (const std::string& tensor : tensors) {
    if (tensor.ends_with(')')) continue;  // already a summary
    const std::size_t begin = tensor.starts_with(whole) ? whole.size() : 0;
    ++parts[tensor.substr(0, tensor.find('.', begin))];
  }
  std::vector<std::string> result;
  for (const auto& [part, count] : parts)
    result.push_back(fmt::format("{} ({} tensor{})", part, count, count == 1 ? "" : "s"));
  std::ranges::copy_if(tensors, std::back_inserter(result),
                       [](const std::string& tensor) { return tensor.ends_with(')'); });
  return result;
}

}  // namespace

void print_file_notices(const std::vector<std::string>& notices) {
  for (const std::string& notice : notices) print_message("tp-infer: " + notice);
}

void print_engine_notices(const EngineInfo& info, const EngineOptions& options) {
  print_file_notices(info.file_notices);
  if (!info.rounded.empty()) {
    print_message(
        fmt::format("tp-infer: weights are rounded: {}; --weights int8 takes half the memory", info.rounded));
  }
  if (!info.unused_tensors.empty()) {
    print_message(fmt::format("tp-infer: the checkpoint has tensors that the model does not use: {}",
                              fmt::join(by_part(info.unused_tensors), ", ")));
  }
  if (!info.tokenizer_notice.empty()) {
    print_message(
        fmt::format("tp-infer: texts cannot be tokenized, only token ids work: {}", info.tokenizer_notice));
  }
  if (!info.unknown_token_ids.empty()) {
    print_message(
        fmt::format("tp-infer: the model's files name tokens outside its vocabulary, which are ignored: {}",
                    fmt::join(info.unknown_token_ids, ", ")));
  }
  if (!info.cache_notice.empty()) print_message(fmt::format("tp-infer: {}", with_flags(info.cache_notice)));
  if (!info.kernels_notice.empty()) print_message(fmt::format("tp-infer: {}", info.kernels_notice));
  if (!info.packed_cache_notice.empty()) print_message(fmt::format("tp-infer: {}", info.packed_cache_notice));
  if (info.options.favor_features != 0) {
    print_message(
        fmt::format("tp-infer: attention is approximated by {} random features per head (--attention favor): "
                    "results differ from the model's",
                    info.options.favor_features));
  }
  if (info.options.unmask_cache != UnmaskCache::exact) {
    print_message(
        fmt::format("tp-infer: passes are approximated (--unmask-cache {}): texts differ from the model's",
                    name_of(info.options.unmask_cache)));
  }
  if (options.max_length > info.options.max_length) {
    print_note(fmt::format(
        "tp-infer: sequences have at most {} tokens, the model's maximum, not the {} of --max-length\n",
        info.options.max_length, options.max_length));
  }
}

}  // namespace tp
