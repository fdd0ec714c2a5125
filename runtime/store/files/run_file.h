// The format of a stored file. Pure functions over bytes: files may be truncated, damaged or hostile.
#pragma once

#include "runtime/protocol/store_work.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tp {

// Whether a file contains keys and values, or recurrent states.
enum class StoredKind : std::uint32_t { keys_and_values = 1, states = 2 };

// Everything but the values.
struct RunHeader {
  StoredKind kind = StoredKind::keys_and_values;
  std::uint32_t layers = 0;  // class of layers
  std::uint32_t head = 0;    // global head
  PromptId before{};
  PromptId id{};
  std::vector<TokenId> tokens{};
  // Index of the first block whose values the file contains. The blocks before it have left the window.
  std::uint32_t first_block = 0;

  bool operator==(const RunHeader&) const = default;
};

// Most tokens of a file, far more than a split of attention has.
constexpr std::size_t kMaxRunTokens = 65536;

// Bytes of a file before its values: whole cache lines.
std::size_t run_offset(std::size_t tokens);
// Writes the header and the tokens to the beginning of `file`, whose values begin at run_offset.
void complete_run(const RunHeader& header, std::span<std::byte> file);

struct ParsedRun {
  RunHeader header{};
  std::span<const std::byte> values{};
  std::string error{};  // if set: why the file cannot be used
};

// Reads a whole file, or only the beginning of a file of `file_bytes` bytes, whose values are then not
// checked.
ParsedRun parse_run(std::span<const std::byte> file);
ParsedRun parse_run_header(std::span<const std::byte> beginning, std::uint64_t file_bytes);

}  // namespace tp
