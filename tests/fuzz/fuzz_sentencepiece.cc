// A tokenizer.model of any bytes beside a tokenizer_config.json is rejected, or encodes a text and decodes
// any ids. An input is the text of tokenizer_config.json, a zero byte and the model. The text is also the
// vocab.json that Marian's tokenizers have.
#include "model/tokenizer/sentencepiece_parts.h"
#include "model/tokenizer/text/sentencepiece_file.h"
#include "tests/fuzz/fuzz_files.h"
#include "tests/fuzz/use_tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace tp {
namespace {

// A space without a token of its own becomes the bytes of U+2581, as in the library.
bool has_space(const SentencePieceFile& file) {
  return std::ranges::any_of(file.pieces, [](const SentencePieceFile::Piece& piece) {
    return piece.type == TokenType::normal && piece.text == "\u2581";
  });
}

// Whether the file has tokens for all bytes and changes nothing but spaces, so that texts survive.
bool keeps_texts(const SentencePieceFile& file) {
  return has_space(file) && file.byte_fallback && file.marks_spaces && file.character_map.empty() &&
         !file.collapses_spaces && !file.space_behind && SentencePieceModel::can_encode(file);
}

void check_text(const std::string& content, const std::filesystem::path& model) {
  if (!keeps_texts(read_sentencepiece(content, model))) return;
  const std::string text = "Ab  ab's 123 \xC3\xA9\xF0\x9F\xA6\x99\n\n.";
  const Tokenizer tokenizer(parts_from_sentencepiece(model));
  if (tokenizer.decode(tokenizer.encode(text, AddSpecial::no), SkipSpecial::no) != text) std::abort();
}

}  // namespace
}  // namespace tp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tp;
  static const ScratchFolder folder;
  const auto parts = divided_at_zero({data, size});
  if (!parts) return 0;
  const std::filesystem::path model = folder.path() / "tokenizer.model";
  for (const char* const name : {"tokenizer_config.json", "vocab.json"}) folder.write(name, parts->first);
  folder.write("tokenizer.model", parts->second);
  expect_error_or_none([&] { use_tokenizer(Tokenizer::load(folder.path())); });
  expect_error_or_none([&] { use_tokenizer(Tokenizer(parts_from_t5_file(model))); });
  expect_error_or_none([&] { use_tokenizer(Tokenizer(parts_from_marian_file(model))); });
  expect_error_or_none([&] { check_text(text_of(parts->second), model); });
  return 0;
}
