// GGUF files of any bytes: reads everything that is read before a model runs.
#include "model/config/gguf_config.h"
#include "model/tokenizer/gguf_vocabulary.h"
#include "model/weights/gguf/gguf_dequantize.h"
#include "model/weights/gguf/gguf_quantized.h"
#include "model/weights/gguf_checkpoint.h"
#include "tests/fuzz/fuzz_files.h"

#include <cstdint>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Reads blocks like a weight in memory, if a type exists for them.
void read_last_blocks(const GgufType& type, const std::byte* row, std::size_t columns) {
  const std::optional<WeightType> held = quantized_type(type);
  if (!held || columns == 0) return;
  const kernels::QuantFormat& format = *kernels::quant_format(*held);
  const Range part{columns - 32, columns};
  constexpr std::size_t kSuper = kernels::QuantizedRows::kColumns;
  std::vector<std::uint8_t> elements(kSuper);
  std::vector<std::uint8_t> scales(kernels::QuantizedRows::groups(format));
  std::vector<std::uint8_t> offsets(scales.size());
  std::vector<std::uint16_t> halves(kernels::QuantizedRows::halves_of(format));
  const kernels::QuantizedRows rows{1, 1, elements.data(), scales.data(), offsets.data(), halves.data()};
  read_quantized(type, row, columns, part, rows, 0);
  const kernels::PackedLayout layout{*held, 1, 32, false, 0, part.begin % kSuper};
  std::vector<std::byte> memory(layout.bytes());
  kernels::pack_quantized(layout, 0, rows, memory.data());
  std::vector<float> values(32);
  kernels::unpack_row({layout, memory.data()}, 0, values.data());
}

void read_tensors(const GgufFiles& files) {
  for (const auto& [name, entry] : files.tensors()) {
    const GgufTensor& tensor = entry.tensor;
    if (!tensor.type.readable) continue;
    const std::size_t columns = tensor.shape.back();
    std::vector<float> row(columns);
    const std::byte* const last = entry.file.bytes().data() + tensor.bytes.end - tensor.row_bytes();
    dequantize(tensor.type, last, {0, columns}, row.data());
    read_last_blocks(tensor.type, last, columns);
  }
}

void read_weights(const std::filesystem::path& path) {
  const auto source = GgufCheckpoint::open(path);
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.bias", "model.layers.0.mlp.experts.1.up_proj.weight",
        "transformer.h.0.attn.c_attn.weight", "model.norm.weight"}) {
    expect_error_or_none([&] {
      source->group_type(name, {0, 32});
      source->expect(name, {32, 32}, "");
      std::vector<float> values(64);
      source->read(name, {32, 32}, {{30, 32}, {0, 32}}, {values.data(), 2, 32});
    });
  }
}

}  // namespace
}  // namespace tp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tp;
  static const ScratchFile file;
  if (size == 0 || !file.write({data, size})) return 0;
  expect_error_or_none([&] {
    const GgufFiles files(file.path());
    read_tensors(files);
    expect_error_or_none([&] { gguf_config(files).dump(); });
    expect_error_or_none([&] { read_weights(file.path()); });
    if (std::optional<EmbeddedVocabulary> vocabulary = gguf_vocabulary(files.metadata()))
      Tokenizer(parts_from_vocabulary(std::move(*vocabulary), "fuzz"))
          .encode("Hello <s> w\xf6rld", AddSpecial::yes);
  });
  return 0;
}
