// Low-rank adapters (LoRA) beside a checkpoint: the factors of its layers, by layer.
//
// Sources: Hu et al., LoRA, 2021; PEFT's files and formulas; llama.cpp's GGUF adapters.
#pragma once

#include "model/config/spec.h"
#include "model/files/mapped_file.h"
#include "parallel/shard/slice.h"
#include "tp/engine_options.h"
#include "tp/tensor.h"

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp {

// A matrix of an adapter, read slice by slice. Its rows and columns are in the order of a Hugging Face
// checkpoint. Without `read`, the adapter lacks the matrix.
struct AdapterMatrix {
  std::string name;  // for errors
  DType type = DType::f32;
  MatrixShape shape;
  // Writes a slice to `out`, [slice.rows.size(), slice.columns.size()].
  std::function<void(const TensorSlice& slice, TensorView<float> out)> read;

  bool exists() const { return read != nullptr; }
};

// The factors of one layer, which computes W x + scale * B A x.
struct AdapterLayer {
  AdapterMatrix a;  // [rank, in_features], of an embedding [rank, vocab_size]
  AdapterMatrix b;  // [out_features, rank], of an embedding [hidden_size, rank]
  float scale = 1.0F;
  bool is_embedding = false;

  std::size_t rank() const { return a.shape.rows; }
};

struct Adapter {
  std::string name;
  std::string place;     // its path, for errors
  std::string identity;  // digits of a hash of everything that determines results
  std::map<std::string, AdapterLayer, std::less<>> layers{};  // by names as layer_key() makes them
  // Whole tensors that replace the model's, by names as layer_key() makes them.
  std::map<std::string, AdapterMatrix, std::less<>> tensors{};
  // Whether tensors of the model are replaced for all rows, so that no row can do without this adapter.
  bool is_exclusive = false;

  // Null: the adapter has no factors for this layer of the checkpoint, or does not replace this tensor.
  const AdapterLayer* find(std::string_view layer) const;
  const AdapterMatrix* find_tensor(std::string_view tensor) const;
};

// A layer's name without the prefixes that depend on the Python class: "model.layers.0.mlp.up_proj" and
// "language_model.model.layers.0.mlp.up_proj" are the same layer.
std::string layer_key(std::string_view layer);

// The adapters of an engine. Rows of a step name an adapter by its index + 1; 0 is none.
class Adapters {
 public:
  // Opens adapters for a model. `architecture`: its name in GGUF files. Throws CheckpointError if a file is
  // missing or damaged, and ConfigError if the program does not support an adapter.
  Adapters(std::span<const AdapterOptions> options, const ModelSpec& spec, std::string_view architecture);

  // Adapters that are open already.
  explicit Adapters(std::vector<Adapter> all) : all_(std::move(all)) {}

  // Takes the whole tensors of adapters, except for the embedding and the LM head, which rows can have of
  // their own. Returns an adapter of these tensors, if there are any; its owner becomes exclusive. Throws
  // ConfigError if there are other adapters, too.
  std::optional<Adapter> take_replaced(const TensorNames& names);

  std::span<const Adapter> all() const { return all_; }
  // A hash of all identities, in order.
  std::uint64_t fingerprint() const;

 private:
  std::vector<Adapter> all_;
};

// Opens a folder in PEFT's layout. Throws like the constructor of Adapters.
Adapter open_peft_adapter(const AdapterOptions& options);
// Opens a GGUF file whose tensors have the names and orders of a GGUF file of this model. Throws like the
// constructor of Adapters.
Adapter open_gguf_adapter(const AdapterOptions& options, const ModelSpec& spec,
                          std::string_view architecture);

// Throws CheckpointError unless every layer has both factors, of the same rank, or neither.
void check_factors(const Adapter& adapter);

// A hash of the files' bytes, and of everything else that determines results.
std::string adapter_identity(std::span<const MappedFile* const> files, std::string_view more);

}  // namespace tp
