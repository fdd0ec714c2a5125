#include "runtime/store/files/run_file.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tp {
namespace {

constexpr std::uint32_t kFormat = 2;
constexpr std::size_t kLine = 64;

// The beginning of a file. Numbers are little-endian, like the values.
struct FixedHeader {
  char magic[8] = {'t', 'p', '-', 'i', 'n', 'f', 'k', 'v'};
  std::uint32_t format = kFormat;
  std::uint32_t kind = 0;
  std::uint32_t layers = 0;
  std::uint32_t head = 0;
  std::uint32_t first_block = 0;
  std::uint32_t unused = 0;
  std::uint64_t tokens = 0;
  std::uint64_t value_bytes = 0;
  PromptId before{};
  PromptId id{};
  std::uint64_t head_sum = 0;   // checksum of the bytes before the values, with zeros in both sums
  std::uint64_t value_sum = 0;  // checksum of the values
};
static_assert(sizeof(FixedHeader) == 128);

std::uint64_t sum_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// The checksum of the bytes before the values, whose beginning is `fixed`.
std::uint64_t head_sum_of(FixedHeader fixed, std::span<const std::byte> head) {
  fixed.head_sum = fixed.value_sum = 0;
  const std::uint64_t sum = XXH3_64bits(&fixed, sizeof fixed);
  const std::span<const std::byte> rest = head.subspan(sizeof fixed);
  return XXH3_64bits_withSeed(rest.data(), rest.size(), sum);
}

ParsedRun refused(std::string why) { return {.header = {}, .values = {}, .error = std::move(why)}; }

}  // namespace

std::size_t run_offset(std::size_t tokens) {
  return (sizeof(FixedHeader) + tokens * sizeof(TokenId) + kLine - 1) / kLine * kLine;
}

void complete_run(const RunHeader& header, std::span<std::byte> file) {
  const std::size_t offset = run_offset(header.tokens.size());
  FixedHeader fixed;
  fixed.kind = static_cast<std::uint32_t>(header.kind);
  fixed.layers = header.layers;
  fixed.head = header.head;
  fixed.first_block = header.first_block;
  fixed.tokens = header.tokens.size();
  fixed.value_bytes = file.size() - offset;
  fixed.before = header.before;
  fixed.id = header.id;
  std::fill_n(file.begin(), offset, std::byte{});
  std::memcpy(file.data(), &fixed, sizeof fixed);
  if (!header.tokens.empty())
    std::memcpy(file.data() + sizeof fixed, header.tokens.data(), header.tokens.size() * sizeof(TokenId));
  fixed.head_sum = head_sum_of(fixed, file.first(offset));
  fixed.value_sum = sum_of(file.subspan(offset));
  std::memcpy(file.data(), &fixed, sizeof fixed);
}

ParsedRun parse_run_header(std::span<const std::byte> beginning, std::uint64_t file_bytes) {
  const FixedHeader expected;
  FixedHeader fixed;
  if (beginning.size() < sizeof fixed) return refused("it is cut short");
  std::memcpy(&fixed, beginning.data(), sizeof fixed);
  if (std::memcmp(fixed.magic, expected.magic, sizeof fixed.magic) != 0)
    return refused("it is not a stored prompt");
  if (fixed.format != kFormat) return refused("it has another version's format");
  if (fixed.kind != static_cast<std::uint32_t>(StoredKind::keys_and_values) &&
      fixed.kind != static_cast<std::uint32_t>(StoredKind::states))
    return refused("its contents are unknown");
  if (fixed.tokens > kMaxRunTokens) return refused("it is damaged");
  const std::size_t offset = run_offset(fixed.tokens);
  if (file_bytes < offset || file_bytes - offset != fixed.value_bytes || beginning.size() < offset)
    return refused("it is cut short");
  if (head_sum_of(fixed, beginning.first(offset)) != fixed.head_sum) return refused("it is damaged");
  ParsedRun run;
  run.header = {static_cast<StoredKind>(fixed.kind), fixed.layers,     fixed.head, fixed.before, fixed.id,
                std::vector<TokenId>(fixed.tokens),  fixed.first_block};
  if (fixed.tokens != 0)
    std::memcpy(run.header.tokens.data(), beginning.data() + sizeof fixed, fixed.tokens * sizeof(TokenId));
  return run;
}

ParsedRun parse_run(std::span<const std::byte> file) {
  ParsedRun run = parse_run_header(file, file.size());
  if (!run.error.empty()) return run;
  FixedHeader fixed;
  std::memcpy(&fixed, file.data(), sizeof fixed);
  run.values = file.subspan(run_offset(run.header.tokens.size()));
  if (sum_of(run.values) != fixed.value_sum) return refused("it is damaged");
  return run;
}

}  // namespace tp
