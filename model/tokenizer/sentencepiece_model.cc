#include "model/tokenizer/sentencepiece_model.h"

#include "tp/internal/require.h"

#include <sentencepiece_processor.h>

namespace tp {
namespace {

std::shared_ptr<const sentencepiece::SentencePieceProcessor> load(const std::filesystem::path& file) {
  auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
  const auto status = processor->Load(file.string());
  require<CheckpointError>(status.ok(),
                           "{}: cannot read the tokenizer: expected a model of SentencePiece, found: {}; the "
                           "file may be damaged: get it again from where the model comes from",
                           file.string(), status.ToString());
  return processor;
}

Vocabulary pieces_of(const sentencepiece::SentencePieceProcessor& processor,
                     const std::filesystem::path& file) {
  const int size = processor.GetPieceSize();
  require<CheckpointError>(
      size > 0 && size < kMaxVocabularySize,
      "{}: the tokenizer has {} tokens, expected 1 to {}; the file may be damaged: get it "
      "again",
      file.string(), size, kMaxVocabularySize - 1);
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  for (int id = 0; id < size; ++id) tokens.emplace_back(processor.IdToPiece(id), id);
  return Vocabulary(tokens);
}

std::optional<TokenId> token_or_none(int id) { return id < 0 ? std::nullopt : std::optional<TokenId>(id); }

}  // namespace

SentencePieceModel::SentencePieceModel(const std::filesystem::path& file)
    : processor_(load(file)), vocabulary_(pieces_of(*processor_, file)) {}

void SentencePieceModel::encode(std::string_view piece, std::vector<TokenId>& out) const {
  std::vector<int> ids;
  const auto status = processor_->Encode(piece, &ids);
  require<RequestError>(
      status.ok(), "cannot tokenize a text of {} bytes: SentencePiece says: {}; split it into smaller parts",
      piece.size(), status.ToString());
  out.insert(out.end(), ids.begin(), ids.end());
}

float SentencePieceModel::score(TokenId id) const { return processor_->GetScore(id); }
bool SentencePieceModel::is_control(TokenId id) const { return processor_->IsControl(id); }
bool SentencePieceModel::is_unknown(TokenId id) const { return processor_->IsUnknown(id); }
bool SentencePieceModel::is_byte(TokenId id) const { return processor_->IsByte(id); }
bool SentencePieceModel::is_unused(TokenId id) const { return processor_->IsUnused(id); }

std::optional<TokenId> SentencePieceModel::bos() const { return token_or_none(processor_->bos_id()); }
std::optional<TokenId> SentencePieceModel::eos() const { return token_or_none(processor_->eos_id()); }

bool SentencePieceModel::adds_space_prefix() const {
  // The library does not say; but it leaves the space out when it decodes.
  std::string text;
  const std::vector<std::string> pieces = {"\u2581x"};
  return processor_->Decode(pieces, &text).ok() && text == "x";
}

}  // namespace tp
