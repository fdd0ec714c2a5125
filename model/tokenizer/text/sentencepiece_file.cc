#include "model/tokenizer/text/sentencepiece_file.h"

#include "model/tokenizer/text/precompiled_map.h"
#include "model/tokenizer/text/utf8.h"
#include "model/tokenizer/text/vocabulary.h"
#include "tp/internal/require.h"

#include <bit>

#include <sentencepiece_processor.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

// Reads the fields of a Protocol Buffers message one by one. Bytes that the library refuses simply end the
// message. `path`: the file's, for errors.
class Message {
 public:
  Message(std::string_view bytes, const fs::path& path) : rest_(bytes), path_(path) {}

  // Throws CheckpointError for a group: the library would skip it, and read what follows, which this program
  // would not have checked.
  bool next() {
    if (rest_.empty()) return false;
    const auto key = static_cast<std::uint32_t>(varint());  // the library drops further bits, too
    field_ = key >> 3;
    kind_ = key & 7;
    bytes_ = {};
    switch (kind_) {
      case 0:
        number_ = varint();
        return true;
      case 1:
        bytes_ = take(8);
        return true;
      case 2:
        bytes_ = take(varint());
        return true;
      case 5:
        bytes_ = take(4);
        return true;
      default:
        throw_error<CheckpointError>(
            "{}: expected a model of SentencePiece, found a field of kind {}; the file may be damaged: get "
            "it "
            "again",
            path_.string(), kind_);
    }
  }

  // Whether this is the field with that number, and of its kind. The library skips fields of another kind.
  bool has_bytes(std::uint32_t field) const { return field_ == field && kind_ == 2; }
  bool has_number(std::uint32_t field) const { return field_ == field && kind_ == 0; }
  bool has_real(std::uint32_t field) const { return field_ == field && kind_ == 5; }
  std::string_view bytes() const { return bytes_; }
  std::uint64_t number() const { return number_; }
  bool flag() const { return number_ != 0; }
  float real() const {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < bytes_.size() && i < 4; ++i)
      word |= std::uint32_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
    return std::bit_cast<float>(word);
  }

 private:
  std::string_view take(std::uint64_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; !rest_.empty() && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

  std::string_view rest_;
  std::uint32_t field_ = 0;
  std::uint32_t kind_ = 0;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
  const fs::path& path_;
};

// Field numbers as in sentencepiece_model.proto.
SentencePieceFile::Piece piece_from(std::string_view bytes, const fs::path& path) {
  SentencePieceFile::Piece piece;
  for (Message message(bytes, path); message.next();) {
    if (message.has_bytes(1)) piece.text = message.bytes();
    if (message.has_real(2)) piece.score = message.real();
    if (message.has_number(3)) piece.type = static_cast<TokenType>(message.number());
  }
  return piece;
}

void read_trainer_spec(std::string_view bytes, const fs::path& path, SentencePieceFile& file) {
  for (Message message(bytes, path); message.next();) {
    if (message.has_number(3)) file.algorithm = static_cast<SentencePieceFile::Algorithm>(message.number());
    if (message.has_number(24)) file.space_behind = message.flag();
    if (message.has_number(35)) file.byte_fallback = message.flag();
  }
}

void read_normalizer_spec(std::string_view bytes, const fs::path& path, SentencePieceFile& file) {
  for (Message message(bytes, path); message.next();) {
    if (message.has_bytes(2)) file.character_map = message.bytes();
    if (message.has_number(3)) file.adds_space = message.flag();
    if (message.has_number(4)) file.collapses_spaces = message.flag();
    if (message.has_number(5)) file.marks_spaces = message.flag();
  }
}

SentencePieceFile contents_of(std::string_view content, const fs::path& path) {
  SentencePieceFile file;
  for (Message message(content, path); message.next();) {
    if (message.has_bytes(1)) file.pieces.push_back(piece_from(message.bytes(), path));
    if (message.has_bytes(2)) read_trainer_spec(message.bytes(), path, file);
    if (message.has_bytes(3)) read_normalizer_spec(message.bytes(), path, file);
  }
  return file;
}

// The library throws an exception of its own for a token with a NUL, and reads outside of a damaged table of
// characters.
void require_harmless(const SentencePieceFile& file, const fs::path& path) {
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    require<CheckpointError>(file.pieces[id].text.find('\0') == std::string::npos,
                             "{}: token {} contains a NUL character, expected none; the file may be damaged: "
                             "get it again",
                             path.string(), id);
  }
  if (file.character_map.empty()) return;
  const std::optional<PrecompiledMap> map = PrecompiledMap::from_bytes(file.character_map);
  require<CheckpointError>(map && map->stays_inside(),
                           "{}: the tokenizer's table of characters has {} bytes, expected a trie and its "
                           "texts; the file may be damaged: get it again",
                           path.string(), file.character_map.size());
}

std::optional<TokenId> token_or_none(int id) { return id < 0 ? std::nullopt : std::optional<TokenId>(id); }

}  // namespace

SentencePieceFile read_sentencepiece(std::string_view content, const fs::path& path) {
  SentencePieceFile file = contents_of(content, path);
  require_harmless(file, path);
  const auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
  // SentencePiece that is built without Abseil has a string_view of its own.
  const auto status = processor->LoadFromSerializedProto({content.data(), content.size()});
  require<CheckpointError>(status.ok(),
                           "{}: cannot read the tokenizer: expected a model of SentencePiece, found: {}; the "
                           "file may be damaged: get it again from where the model comes from",
                           path.string(), status.ToString());
  require<CheckpointError>(
      !file.pieces.empty() && file.pieces.size() < static_cast<std::size_t>(kMaxVocabularySize),
      "{}: the tokenizer has {} tokens, expected 1 to {}; the file may be damaged: get it "
      "again",
      path.string(), file.pieces.size(), kMaxVocabularySize - 1);
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    require<CheckpointError>(
        utf8::is_valid(file.pieces[id].text),
        "{}: token {} is not UTF-8, expected text; the file may be damaged: get it again", path.string(), id);
  }
  file.bos = token_or_none(processor->bos_id());
  file.eos = token_or_none(processor->eos_id());
  file.unknown = processor->unk_id();
  file.processor = processor;
  return file;
}

}  // namespace tp
