#include "model/files/file_kind.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>

namespace tp {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kBeginning = 512;

constexpr std::string_view kGetSafetensors =
    "download the model's safetensors files instead, or convert it with transformers' save_pretrained";
constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kCheckName = "check the file's name";

struct Known {
  std::string_view beginning;
  std::string_view what;
  std::string_view advice;
  std::optional<FileKind> kind = std::nullopt;
};

constexpr Known kKnown[] = {
    {"version https://git-lfs"sv, "a Git LFS pointer in the place of the file's content",
     "run `git lfs pull` in the model's folder, or download the file again"},
    {"# xet version"sv, "a pointer to a file in Xet in the place of the file's content",
     "download the file again"},
    {"GGUF"sv, "a GGUF file", "give the file a name that ends in .gguf, and its path as the model",
     FileKind::gguf},
    {"lmgg"sv, "a GGML file, llama.cpp's format before GGUF", "get the model as GGUF"},
    {"fmgg"sv, "a GGML file, llama.cpp's format before GGUF", "get the model as GGUF"},
    {"tjgg"sv, "a GGML file, llama.cpp's format before GGUF", "get the model as GGUF"},
    {"algg"sv, "a LoRA adapter in llama.cpp's format before GGUF", "get the model as GGUF"},
    {"\x1f\x8b"sv, "a file compressed by gzip", kUnpack},
    {"BZh"sv, "a file compressed by bzip2", kUnpack},
    {"\xfd"
     "7zXZ\0"sv,
     "a file compressed by xz", kUnpack},
    {"\x28\xb5\x2f\xfd"sv, "a file compressed by zstd", kUnpack},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", kUnpack},
    {"PK\x03\x04"sv, "a zip archive, such as PyTorch's weights (.bin, .pth)", kGetSafetensors},
    {"\x80\x02"sv, "PyTorch's weights in Python's pickle format", kGetSafetensors},
    {"\x80\x03"sv, "PyTorch's weights in Python's pickle format", kGetSafetensors},
    {"\x80\x04"sv, "PyTorch's weights in Python's pickle format", kGetSafetensors},
    {"\x89HDF\r\n"sv, "an HDF5 file, such as Keras's weights", kGetSafetensors},
    {"\x93NUMPY"sv, "an array of NumPy", kCheckName},
    {"%PDF"sv, "a PDF file", kCheckName},
    {"Entry not found"sv, "the Hub's message that there is no such file", "download the model again"},
    {"Invalid username or password"sv, "the Hub's message about a missing login",
     "download the model again, with a token (HF_TOKEN)"},
    {"Access to model"sv, "the Hub's message about a missing permission",
     "ask for access on the model's page, and download the model again, with a token (HF_TOKEN)"},
};

// A web page may begin with blanks, and in upper case.
bool is_html(std::string_view bytes) {
  bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
  std::string beginning(bytes.substr(0, 9));
  std::ranges::transform(beginning, beginning.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return beginning.starts_with("<!doctype") || beginning.starts_with("<html") ||
         beginning.starts_with("<?xml");
}

// Copies of Hugging Face's cache without links have the path of a blob as content.
bool is_link(std::string_view bytes) {
  return bytes.starts_with("../") && bytes.size() < kBeginning && bytes.find('\n') == bytes.npos;
}

// The length of a header as 8 bytes, of which the upper 4 are zero, and JSON.
bool is_safetensors(std::string_view bytes) {
  return bytes.size() > 9 && bytes.substr(4, 4) == "\0\0\0\0"sv && bytes[8] == '{' &&
         (bytes[9] == '"' || bytes[9] == '}');
}

// A message of Protocol Buffers that begins with a piece: a text and its score, with lengths below 128.
bool is_sentencepiece(std::string_view bytes) {
  if (bytes.size() < 4 || bytes[0] != '\n' || bytes[2] != '\n' || bytes[3] <= 0) return false;
  const std::size_t score = 4 + static_cast<std::size_t>(bytes[3]);
  return bytes[1] > bytes[3] && score < bytes.size() && bytes[score] == '\x15';
}

bool is_tar(std::string_view bytes) { return bytes.size() > 262 && bytes.substr(257, 5) == "ustar"; }

bool is_json(std::string_view bytes) { return bytes.starts_with("{\"") || bytes.starts_with("{\n"); }

std::optional<Known> recognized(std::string_view bytes) {
  const auto* const known =
      std::ranges::find_if(kKnown, [&](const Known& each) { return bytes.starts_with(each.beginning); });
  if (known != std::end(kKnown)) return *known;
  if (is_html(bytes)) {
    return Known{"", "a web page, such as a login or an error",
                 "download the file again, from a place that doesn't ask for a login"};
  }
  if (is_link(bytes)) {
    return Known{"", "the text of a link",
                 "copy the model together with what its links name (cp -rL), or download it again"};
  }
  if (is_safetensors(bytes)) return Known{"", "a safetensors file", kCheckName, FileKind::safetensors};
  if (is_sentencepiece(bytes))
    return Known{"", "a vocabulary of SentencePiece", kCheckName, FileKind::sentencepiece};
  if (is_tar(bytes)) return Known{"", "a tar archive", kUnpack};
  if (is_json(bytes)) return Known{"", "a JSON file", kCheckName, FileKind::json};
  return std::nullopt;
}

std::string_view name_of(FileKind kind) {
  switch (kind) {
    case FileKind::safetensors:
      return "a safetensors file";
    case FileKind::gguf:
      return "a GGUF file";
    case FileKind::json:
      return "a JSON file";
    case FileKind::sentencepiece:
      return "a model of SentencePiece";
    default:
      return "a text";
  }
}

std::string beginning_of(const std::filesystem::path& file) {
  std::string bytes(kBeginning, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

}  // namespace

void refuse_other_kinds(std::string_view bytes, const std::string& name, FileKind expected) {
  const std::optional<Known> found = recognized(bytes.substr(0, kBeginning));
  if (!found || found->kind == expected) return;
  if (expected == FileKind::text && found->kind == FileKind::json) return;
  const bool has_text = found->what == "the text of a link";
  throw_error<CheckpointError>("{}: expected {}, found {}{}; {}", name, name_of(expected), found->what,
                               has_text ? fmt::format(" ({})", printable(bytes)) : "", found->advice);
}

void refuse_other_kinds(std::span<const std::byte> bytes, const std::string& name, FileKind expected) {
  const std::size_t size = std::min(bytes.size(), kBeginning);
  refuse_other_kinds(std::string_view(reinterpret_cast<const char*>(bytes.data()), size), name, expected);
}

void refuse_other_kinds(const std::filesystem::path& file, FileKind expected) {
  refuse_other_kinds(beginning_of(file), file.string(), expected);
}

std::string_view kind_of_file(const std::filesystem::path& file) {
  const std::optional<Known> found = recognized(beginning_of(file));
  return found ? found->what : "";
}

}  // namespace tp
