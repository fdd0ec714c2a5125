// Files of stored prompts. An input is read as a file. It also describes a file: its header, its size, and a
// change, which must be noticed.
#include "runtime/store/files/run_file.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace tp {
namespace {

void require_that(bool condition) {
  if (!condition) std::abort();
}

// Reads a file and writes it again: the bytes must be equal.
void read_file(std::span<const std::byte> file) {
  const ParsedRun run = parse_run(file);
  parse_run_header(file, file.size() + 1);
  if (!run.error.empty()) return;
  std::vector<std::byte> again(run_offset(run.header.tokens.size()) + run.values.size());
  std::ranges::copy(run.values, again.end() - static_cast<std::ptrdiff_t>(run.values.size()));
  complete_run(run.header, again);
  require_that(std::ranges::equal(again, file));
}

void read_changed_file(std::span<const std::byte> input) {
  if (input.size() < 8) return;
  const auto number = [&](std::size_t i) { return static_cast<std::size_t>(input[i]); };
  RunHeader header{.kind = number(0) % 2 == 0 ? StoredKind::keys_and_values : StoredKind::states,
                   .layers = static_cast<std::uint32_t>(number(1)),
                   .head = static_cast<std::uint32_t>(number(2))};
  header.tokens.assign(number(3), static_cast<TokenId>(number(4)));
  header.first_block = static_cast<std::uint32_t>(number(5));
  const std::span<const std::byte> values = input.subspan(7);
  std::vector<std::byte> file(run_offset(header.tokens.size()) + values.size());
  std::ranges::copy(values, file.end() - static_cast<std::ptrdiff_t>(values.size()));
  complete_run(header, file);
  require_that(parse_run(file).header == header);
  const std::size_t place = (number(5) << 8 | number(6)) % file.size();
  file[place] ^= std::byte{1};
  require_that(!parse_run(file).error.empty());
  file[place] ^= std::byte{1};
  file.resize(place);
  require_that(!parse_run(file).error.empty());
}

}  // namespace
}  // namespace tp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  tp::read_file(input);
  tp::read_changed_file(input);
  return 0;
}
