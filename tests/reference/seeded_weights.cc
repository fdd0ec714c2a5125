#include "tests/reference/seeded_weights.h"

#include "tp/error.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>

#include <fmt/format.h>

namespace tp::reference {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

std::size_t elements_of(const std::vector<std::size_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

// Returns the bytes of `value(i)` for i = 0, 1, 2...
template <class Value>
std::string elements(std::size_t count, const Value& value) {
  using Element = decltype(value(std::uint64_t{0}));
  std::string bytes(count * sizeof(Element), '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const Element element = value(i);
    std::memcpy(bytes.data() + i * sizeof(Element), &element, sizeof(Element));
  }
  return bytes;
}

// Rounds to nearest, ties to even.
std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

std::string numbers(const nlohmann::json& entry, const ElementHash& hash, std::size_t count) {
  const auto base = entry.at("base").get<float>();
  const auto amplitude = entry.at("amplitude").get<float>();
  const auto value = [&](std::uint64_t i) {
    const float unit = static_cast<float>(hash(i) >> 40) * 0x1p-24F;
    const float offset = amplitude * (2 * unit - 1);
    return base + offset;
  };
  if (entry.at("dtype") == "F32") return elements(count, value);
  if (entry.at("dtype") == "BF16")
    return elements(count, [&](std::uint64_t i) { return bf16_bits(value(i)); });
  throw Error(fmt::format("no formula for the type {}", entry.at("dtype").dump()));
}

// Returns consecutive numbers along the last dimension, beginning at a random one.
std::string consecutive(const nlohmann::json& entry, const ElementHash& hash, std::size_t count) {
  const auto modulus = entry.at("modulus").get<std::uint64_t>();
  const auto columns = entry.at("shape").back().get<std::uint64_t>();
  return elements(count, [&](std::uint64_t i) {
    const std::uint64_t column = i % columns;
    return static_cast<std::int64_t>((hash(i - column) % modulus + column) % modulus);
  });
}

std::string bytes_of(const nlohmann::json& entry, const ElementHash& hash, std::size_t count) {
  if (!entry.contains("formula")) return numbers(entry, hash, count);
  const auto formula = entry.at("formula").get<std::string>();
  if (formula == "consecutive") return consecutive(entry, hash, count);
  if (formula == "bytes")
    return elements(count, [&](std::uint64_t i) { return static_cast<std::uint8_t>(hash(i) >> 56); });
  if (formula == "scales") {
    const auto base = entry.at("base").get<std::uint64_t>();
    return elements(count,
                    [&](std::uint64_t i) { return static_cast<std::uint8_t>(base + (hash(i) >> 62)); });
  }
  if (formula == "values") {
    const nlohmann::json& values = entry.at("values");
    if (entry.at("dtype") == "I64")
      return elements(count, [&](std::uint64_t i) { return values.at(i).get<std::int64_t>(); });
    if (entry.at("dtype") == "BOOL")
      return elements(count, [&](std::uint64_t i) { return values.at(i).get<std::uint8_t>(); });
  }
  throw Error("unknown formula " + formula);
}

std::vector<SeededTensor> seeded_tensors(const std::filesystem::path& description) {
  std::ifstream stream(description);
  const nlohmann::json weights = nlohmann::json::parse(stream);
  if (weights.at("format") != "seeded-weights-1")
    throw Error(fmt::format("{}: expected seeded-weights-1, found {}", description.string(),
                            weights.at("format").dump()));
  std::vector<SeededTensor> tensors;
  for (const nlohmann::json& entry : weights.at("tensors"))
    tensors.push_back(seeded_tensor(entry, weights.at("salt").get<std::string>()));
  return tensors;
}

// A separate file, because the rows take longer to read.
void write_greedy_ids(const std::filesystem::path& folder) {
  std::ifstream stream(folder / "expected.json");
  const nlohmann::json expected = nlohmann::json::parse(stream);
  if (!expected.contains("greedy_ids")) return;
  std::ofstream(folder / "greedy.json") << nlohmann::json({{"ids", expected.at("greedy_ids")}});
}

}  // namespace

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return hash;
}

SeededTensor seeded_tensor(const nlohmann::json& entry, const std::string& salt) {
  SeededTensor tensor{.name = entry.at("name").get<std::string>(),
                      .dtype = entry.at("dtype").get<std::string>(),
                      .shape = entry.at("shape").get<std::vector<std::size_t>>(),
                      .bytes = {}};
  // A copy of another checkpoint's tensor uses that tensor's text.
  const ElementHash hash = entry.contains("text") ? ElementHash(entry.at("text").get<std::string>(), "")
                                                  : ElementHash(tensor.name, salt);
  tensor.bytes = bytes_of(entry, hash, elements_of(tensor.shape));
  return tensor;
}

void write_seeded_weights(const std::filesystem::path& description, const std::filesystem::path& output) {
  const std::vector<SeededTensor> tensors = seeded_tensors(description);
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::size_t end = 0;
  for (const SeededTensor& tensor : tensors) {
    const std::size_t begin = end;
    end += tensor.bytes.size();
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that tensors are aligned
  const std::uint64_t size = text.size();
  std::ofstream stream(output, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(&size), sizeof(size)) << text;
  for (const SeededTensor& tensor : tensors) stream << tensor.bytes;
  if (!stream.flush()) throw Error(output.string() + ": cannot be written");
}

namespace {

nlohmann::json parse_file(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

// Adds the mask and the length of blocks to a config without them, because the code of LLaDA2 takes both as
// arguments of generate().
void complete_diffusion_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  nlohmann::json config = parse_file(file);
  if (config.contains("mask_token_id")) return;
  const nlohmann::json first = parse_file(folder / "generate.json").at("cases").at(0);
  if (!first.contains("mask_id") || !first.contains("block_length")) return;
  config["mask_token_id"] = first.at("mask_id");
  config["block_size"] = first.at("block_length");
  std::ofstream(file) << config.dump(2);
}

}  // namespace

void write_seeded_fixtures(const std::filesystem::path& folder, const std::filesystem::path& output) {
  std::filesystem::remove_all(output);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    const std::filesystem::path target = output / std::filesystem::relative(entry.path(), folder);
    std::filesystem::create_directories(target.parent_path());
    const bool is_adapter = std::filesystem::exists(entry.path().parent_path() / "adapter_config.json");
    if (target.filename() == "weights.json")
      write_seeded_weights(entry.path(), target.parent_path() / (is_adapter ? "adapter_model.safetensors"
                                                                            : "model.safetensors"));
    else
      std::filesystem::copy_file(entry.path(), target);
    if (target.filename() == "expected.json") write_greedy_ids(target.parent_path());
  }
  for (const auto& entry : std::filesystem::directory_iterator(output / "diffusion"))
    complete_diffusion_config(entry.path());
}

}  // namespace tp::reference
