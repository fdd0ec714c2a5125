// Adapters of any bytes beside a small Llama: reads the last elements of their matrices, and of the weights
// into which they are merged. An input is a GGUF file, or the text of adapter_config.json, a zero byte and
// adapter_model.safetensors.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/adapters/merged_checkpoint.h"
#include "tests/fuzz/fuzz_files.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tp {
namespace {

// The matrices of the model, filled with zeros.
class ZeroWeights final : public WeightSource {
 public:
  bool contains(const std::string& name) const override { return shapes_.contains(name); }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, shape] : shapes_) names.push_back(name);
    return names;
  }
  DType dtype(const std::string&) const override { return DType::f32; }
  void expect(const std::string&, MatrixShape, const std::string&) const override {}
  void read(const std::string&, MatrixShape, const TensorSlice&, TensorView<float> out) const override {
    for (std::size_t row = 0; row < out.rows(); ++row) std::fill_n(out.row(row), out.columns(), 0.0F);
  }
  std::size_t stored_bytes() const override { return 0; }
  std::size_t bytes_read() const override { return 0; }
  std::uint64_t fingerprint() const override { return 0; }
  void done_with(const std::string&) const override {}

  const std::map<std::string, MatrixShape>& shapes() const { return shapes_; }

 private:
  static std::map<std::string, MatrixShape> shapes_of_model() {
    std::map<std::string, MatrixShape> shapes = {{"model.embed_tokens.weight", {320, 96}},
                                                 {"lm_head.weight", {320, 96}},
                                                 {"model.norm.weight", {1, 96}}};
    for (const std::string block : {"model.layers.0.", "model.layers.1."}) {
      for (const char* const name : {"q_proj", "o_proj"})
        shapes[block + "self_attn." + name + ".weight"] = {96, 96};
      for (const char* const name : {"k_proj", "v_proj"})
        shapes[block + "self_attn." + name + ".weight"] = {48, 96};
      for (const char* const name : {"gate_proj", "up_proj"})
        shapes[block + "mlp." + name + ".weight"] = {256, 96};
      shapes[block + "mlp.down_proj.weight"] = {96, 256};
    }
    return shapes;
  }

  std::map<std::string, MatrixShape> shapes_ = shapes_of_model();
};

// Calls read(slice, out) for the last elements of a matrix, at most 4 rows and 40 columns.
template <class Read>
void read_last(MatrixShape shape, const Read& read) {
  if (shape.size() == 0) return;
  const TensorSlice slice{{shape.rows - std::min<std::size_t>(shape.rows, 4), shape.rows},
                          {shape.columns - std::min<std::size_t>(shape.columns, 40), shape.columns}};
  std::vector<float> values(slice.size());
  read(slice, TensorView<float>(values.data(), slice.rows.size(), slice.columns.size()));
}

void read_matrices(const Adapter& adapter) {
  const auto read = [](const AdapterMatrix& matrix) {
    if (matrix.exists()) read_last(matrix.shape, matrix.read);
  };
  for (const auto& [name, layer] : adapter.layers) {
    read(layer.a);
    read(layer.b);
  }
  for (const auto& [name, tensor] : adapter.tensors) read(tensor);
}

void use_adapter(const std::filesystem::path& path, const ModelSpec& spec, const std::string& architecture) {
  const std::vector<AdapterOptions> options = {{.name = "fuzz", .path = path, .scale = 2.0}};
  Adapters adapters(options, spec, architecture);
  adapters.fingerprint();
  for (const Adapter& adapter : adapters.all()) read_matrices(adapter);
  const MergedCheckpoint merged(std::make_unique<ZeroWeights>(), adapters, spec);
  const ZeroWeights zeros;
  for (const auto& [name, shape] : zeros.shapes()) {
    expect_error_or_none([&, &name = name, &shape = shape] {
      merged.expect(name, shape, "");
      read_last(shape, [&](const TensorSlice& slice, TensorView<float> out) {
        merged.read(name, shape, slice, out);
      });
    });
  }
  adapters.take_replaced(spec.names);
}

}  // namespace
}  // namespace tp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tp;
  static const ScratchFolder folder;
  static const CheckpointConfig config = load_config(TP_TEST_DATA "/seeded/logits/llama-gqa");
  static const ModelSpec spec = make_spec(config);
  const std::string& architecture = family_of(config.architecture).gguf.architecture_of(config);
  const FuzzBytes input(data, size);
  if (text_of(input.first(std::min<std::size_t>(size, 4))) == "GGUF") {
    folder.write("adapter.gguf", input);
    expect_error_or_none([&] { use_adapter(folder.path() / "adapter.gguf", spec, architecture); });
  } else if (const auto parts = divided_at_zero(input)) {
    folder.write("adapter_config.json", parts->first);
    folder.write("adapter_model.safetensors", parts->second);
    expect_error_or_none([&] { use_adapter(folder.path(), spec, architecture); });
  }
  return 0;
}
