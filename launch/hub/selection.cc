#include "launch/hub/selection.h"

#include "launch/hub/download_error.h"
#include "launch/hub/gguf_models.h"
#include "model/files/printable.h"
#include "model/files/split_text.h"
#include "model/weights/safetensors/safetensors_files.h"
#include "runtime/text/format_bytes.h"
#include "tp/internal/require.h"

#include <iterator>
#include <string_view>

#include <fmt/ranges.h>

namespace tp {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Files that the runtime reads in addition to the weights, if the repository has them: model/config,
// model/tokenizer.
constexpr const char* kCompanions =
    "config.json generation_config.json tokenizer.json tekken.json tiktoken.model rwkv_vocab_v20230424.txt "
    "tokenizer.model tokenizer_config.json special_tokens_map.json added_tokens.json vocab.json merges.txt "
    "vocab.txt chat_template.jinja chat_template.json";

// Whether the file is a chat template in addition to chat_template.jinja.
bool is_further_template(std::string_view path) {
  return path.starts_with("additional_chat_templates/") && path.ends_with(".jinja");
}

bool has_safetensors(const HubListing& listing) {
  return listing.find(kConfig) != nullptr &&
         (listing.find(kSingle) != nullptr || listing.find(kIndex) != nullptr);
}

Selection select_safetensors(const HubName& name, const HubListing& listing,
                             const std::function<std::string(const HubFile&)>& read) {
  Selection selection;
  for (const std::string_view companion : split_text(kCompanions))
    if (const HubFile* file = listing.find(std::string(companion))) selection.files.push_back(*file);
  for (const HubFile& file : listing.files)
    if (is_further_template(file.path)) selection.files.push_back(file);
  if (const HubFile* single = listing.find(kSingle)) {
    selection.files.push_back(*single);
    return selection;
  }
  const HubFile& index = *listing.find(kIndex);
  selection.files.push_back(index);
  for (const std::string& part : parse_safetensors_index(read(index), kIndex).names) {
    const HubFile* file = listing.find(part);
    require<DownloadError>(file != nullptr,
                           "cannot download {}: expected the file {}, which {} names, found none; report it "
                           "to the repository's owner, or choose another --revision",
                           name.repository, printable(part), kIndex);
    selection.files.push_back(*file);
  }
  return selection;
}

std::uint64_t size_of(const GgufModel& model, const HubListing& listing) {
  std::uint64_t size = 0;
  for (const std::string& file : model.files) size += listing.find(file)->size;
  return size;
}

// "a.gguf (4.1 GiB), b.gguf (7.2 GiB) and 3 more"
std::string list_models(const std::vector<GgufModel>& models, const HubListing& listing) {
  constexpr std::size_t kMax = 30;
  std::vector<std::string> texts;
  for (const GgufModel& model : models) {
    if (texts.size() == kMax) break;
    texts.push_back(fmt::format("{} ({})", model.name(), format_bytes(size_of(model, listing))));
  }
  const std::string rest =
      models.size() > kMax ? fmt::format(" and {} more, which --list shows", models.size() - kMax) : "";
  return fmt::format("{}{}", fmt::join(texts, ", "), rest);
}

Selection select_gguf(const HubName& name, const HubListing& listing, const std::vector<GgufModel>& models) {
  const std::vector<GgufModel> found = matching(models, name.file);
  require<DownloadError>(
      !found.empty(),
      "cannot download {}: expected a GGUF model with this name, found {}; put one of these after the colon",
      name.text(), list_models(models, listing));
  require<DownloadError>(found.size() == 1,
                         "cannot download {}: expected one GGUF model, found {}; name one of these: "
                         "`tp-infer download {}:{}`",
                         name.text(), list_models(found, listing), name.repository, found.front().name());
  Selection selection;
  for (const std::string& file : found.front().files) selection.files.push_back(*listing.find(file));
  selection.model = found.front().name();
  return selection;
}

// Returns the first file with one of these endings, or an empty path.
std::string first_with(const HubListing& listing, std::initializer_list<std::string_view> endings) {
  for (const HubFile& file : listing.files)
    for (const std::string_view ending : endings)
      if (file.path.ends_with(ending)) return printable(file.path);
  return {};
}

[[noreturn]] void refuse(const HubName& name, const HubListing& listing) {
  constexpr const char* kExpected = "config.json with model.safetensors or its index, or a GGUF model";
  const std::string what = fmt::format("cannot download {}", name.text());
  if (!name.file.empty())
    throw_error<DownloadError>("{}: expected a GGUF model, found none in this repository; leave out \":{}\"",
                               what, name.file);
  if (const std::string adapter = first_with(listing, {"adapter_model.safetensors", "adapter_config.json"});
      !adapter.empty()) {
    throw_error<DownloadError>(
        "{}: expected a whole model ({}), found an adapter ({}); merge it into its model with PEFT's "
        "merge_and_unload, and run the result",
        what, kExpected, adapter);
  }
  if (const std::string weights = first_with(listing, {".safetensors", ".gguf"}); !weights.empty()) {
    throw_error<DownloadError>(
        "{}: expected {}, found only others, such as {}; look for a conversion of this model for Hugging "
        "Face's "
        "transformers, or to GGUF",
        what, kExpected, weights);
  }
  if (const std::string weights = first_with(listing, {".bin", ".pt", ".pth", ".ckpt"}); !weights.empty()) {
    throw_error<DownloadError>(
        "{}: expected {}, found PyTorch weights ({}), which can hold programs and are not read; look for a "
        "revision "
        "or a repository with safetensors, such as the pull request of the Hub's converter "
        "(--revision refs/pr/N)",
        what, kExpected, weights);
  }
  throw_error<DownloadError>(
      "{}: expected {}, found neither among its {} files; check the name (--list shows the files)", what,
      kExpected, listing.files.size());
}

}  // namespace

Selection select_files(const HubName& name, const HubListing& listing,
                       const std::function<std::string(const HubFile&)>& read) {
  if (name.file.empty() && has_safetensors(listing)) return select_safetensors(name, listing, read);
  std::vector<std::string> paths;
  for (const HubFile& file : listing.files) paths.push_back(file.path);
  const std::vector<GgufModel> models = gguf_models(paths);
  if (models.empty()) refuse(name, listing);
  return select_gguf(name, listing, models);
}

}  // namespace tp
