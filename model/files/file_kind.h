// Recognizes what a file is by its first bytes, for messages about files that are not what a reader expects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tp {

// Files that readers expect.
enum class FileKind : std::uint8_t { safetensors, gguf, json, sentencepiece, text };

// Throws CheckpointError, naming what the file is and what to do, if its bytes show that it is not
// `expected`: a Git LFS pointer, an HTML page, an archive, or a model in a different format. `name`: the
// file's name in the error. Bytes beyond the first 512 don't matter.
void refuse_other_kinds(std::string_view bytes, const std::string& name, FileKind expected);
void refuse_other_kinds(std::span<const std::byte> bytes, const std::string& name, FileKind expected);
// Reads the file's first bytes. A file that cannot be read is of no known kind.
void refuse_other_kinds(const std::filesystem::path& file, FileKind expected);

// "a Git LFS pointer"; empty if the kind is not known.
std::string_view kind_of_file(const std::filesystem::path& file);

}  // namespace tp
