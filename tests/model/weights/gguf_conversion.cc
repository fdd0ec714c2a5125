#include "tests/model/weights/gguf_conversion.h"

#include "model/weights/gguf_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/weights/read_tensor.h"
#include "tests/mpi_test.h"

#include <algorithm>

namespace tp::test {

GgufConversion::GgufConversion(const reference::Fixture& fixture, const std::string& architecture)
    : config_(load_config(fixture.folder)),
      source_(SafetensorsCheckpoint::open(fixture.folder)),
      architecture_(architecture) {
  const bool is_latent = config_.latent.kv_lora_rank != 0;
  whole("context_length", config_.max_position_embeddings);
  whole("embedding_length", config_.hidden_size);
  whole("block_count", config_.num_hidden_layers);
  whole("feed_forward_length", config_.intermediate_size);
  whole("attention.head_count", config_.num_attention_heads);
  whole("attention.head_count_kv", is_latent ? 1 : config_.num_key_value_heads);
  whole("attention.key_length",
        is_latent ? config_.latent.kv_lora_rank + config_.head_dim : config_.head_dim);
  whole("attention.value_length", is_latent ? config_.latent.kv_lora_rank : config_.head_dim);
  number("attention.layer_norm_rms_epsilon", config_.rms_norm_eps);
  number("attention.layer_norm_epsilon", config_.layer_norm_eps);
  whole("rope.dimension_count", rotary_dim(config_));
  number("rope.freq_base", config_.rope_theta);
  if (config_.num_experts != 0) {
    whole("expert_count", config_.num_experts);
    whole("expert_used_count", config_.experts.num_experts_per_tok);
    whole("expert_feed_forward_length", config_.experts.moe_intermediate_size);
  }
  if (contains("model.embed_tokens.weight")) copy("token_embd.weight", "model.embed_tokens.weight");
  if (contains("model.norm.weight")) copy("output_norm.weight", "model.norm.weight");
  if (contains("lm_head.weight")) copy("output.weight", "lm_head.weight");
}

// The language model of a larger one has one of two prefixes.
std::string GgufConversion::stored_name(const std::string& name) const {
  const std::string part = "language_model.";
  const std::string model = "model.";
  if (source_->contains(part + name)) return part + name;
  const std::string inside = name.starts_with(model) ? model + part + name.substr(model.size()) : name;
  return source_->contains(inside) ? inside : name;
}

TensorValues GgufConversion::read(const std::string& name) const {
  const std::string stored = stored_name(name);
  const auto& extents = source_->find_raw(stored)->tensor.shape;
  TensorValues values{{extents.begin(), extents.end()}, {}};
  std::size_t rows = 1;
  for (std::size_t i = 0; i + 1 < extents.size(); ++i) rows *= extents[i];
  const MatrixShape shape{rows, extents.empty() ? 1 : extents.back()};
  values.elements = read_whole(*source_, stored, shape);
  return values;
}

void GgufConversion::write(const std::string& name, TensorValues values) {
  if (values.shape.size() > 1) std::erase(values.shape, 1U);
  tensors_[name] = std::move(values);
}

void GgufConversion::copy_block(std::size_t layer, const BlockTensors& names, const std::string& prefix) {
  for (const auto& [to, from] : names) {
    if (contains(prefix + from)) copy(fmt::format("blk.{}.{}", layer, to), prefix + from);
  }
}

void GgufConversion::stack(std::size_t layer, const std::string& to, const std::string& from,
                           const std::string& blocks) {
  TensorValues all;
  for (std::size_t expert = 0; expert < config_.num_experts; ++expert) {
    const std::string name = fmt::format("{}{}.", blocks, layer) + fmt::format(fmt::runtime(from), expert);
    if (!contains(name)) return;
    const TensorValues one = read(name);
    all.shape = one.shape;
    all.elements.insert(all.elements.end(), one.elements.begin(), one.elements.end());
  }
  if (config_.num_experts == 0) return;
  all.shape.insert(all.shape.begin(), config_.num_experts);
  write(fmt::format("blk.{}.{}", layer, to), all);
}

void GgufConversion::change(const std::string& name, const std::function<void(TensorValues&)>& change) {
  if (const auto tensor = tensors_.find(name); tensor != tensors_.end()) change(tensor->second);
}

GgufBuilder GgufConversion::builder() const {
  GgufBuilder file;
  file.text("general.architecture", architecture_);
  for (const auto& [key, value] : values_) file.value(architecture_ + "." + key, value.first, value.second);
  for (const auto& [name, values] : tensors_)
    file.tensor(name, values.shape, "F32", bytes_of(values.elements));
  return file;
}

void write_experts_one_by_one(GgufConversion& to, std::size_t layer, const std::string& prefix,
                              const std::vector<std::string>& parts) {
  const char* const names[] = {"gate", "up", "down"};
  for (std::size_t i = 0; i < 3; ++i)
    to.stack(layer, fmt::format("ffn_{}_exps.weight", names[i]), prefix + "{}." + parts[i] + ".weight");
}

TensorValues every(const TensorValues& values, std::size_t first, std::size_t apart) {
  TensorValues some{values.shape, {}};
  some.shape.back() /= apart;
  for (std::size_t i = first; i < values.elements.size(); i += apart)
    some.elements.push_back(values.elements[i]);
  return some;
}

TensorValues transposed(const TensorValues& values) {
  const std::size_t rows = values.shape[1];
  const std::size_t columns = values.shape[2];
  TensorValues out{{values.shape[0], columns, rows}, std::vector<float>(values.elements.size())};
  for (std::size_t i = 0; i < out.elements.size(); ++i) {
    const std::size_t matrix = i / (rows * columns) * rows * columns;
    out.elements[i] = values.elements[matrix + i % rows * columns + (i - matrix) / rows];
  }
  return out;
}

void interleave_query_key(GgufConversion& to, std::size_t layer) {
  const std::size_t head_dim = to.config().head_dim;
  const auto interleave = [&](TensorValues& values) {
    const std::size_t columns = values.elements.size() / values.shape.front();  // 1 in a bias
    const std::vector<float> halves = values.elements;
    for (std::size_t row = 0; row < values.shape.front(); ++row) {
      const std::size_t in_head = row % head_dim;
      const std::size_t from = row - in_head + in_head / 2 + in_head % 2 * (head_dim / 2);
      std::copy_n(halves.data() + from * columns, columns, values.elements.data() + row * columns);
    }
  };
  for (const char* tensor : {"attn_q.weight", "attn_q.bias", "attn_k.weight", "attn_k.bias"})
    to.change(fmt::format("blk.{}.{}", layer, tensor), interleave);
}

TensorValues rows_of(const TensorValues& stack, std::size_t begin, std::size_t count) {
  TensorValues out{{stack.shape[0], count, stack.shape[2]}, {}};
  for (std::size_t matrix = 0; matrix < stack.shape[0]; ++matrix) {
    const auto first = stack.elements.begin() +
                       static_cast<std::ptrdiff_t>((matrix * stack.shape[1] + begin) * stack.shape[2]);
    out.elements.insert(out.elements.end(), first,
                        first + static_cast<std::ptrdiff_t>(count * stack.shape[2]));
  }
  return out;
}

void add_one(TensorValues& values) {
  for (float& value : values.elements) value += 1.0F;
}

std::vector<std::string> expect_logits_in(const std::filesystem::path& file,
                                          const reference::Fixture& fixture) {
  const CheckpointConfig config = load_config(file);
  const auto source = GgufCheckpoint::open(file);
  ModelUnderTest decoder(world(), config, *source, {.weights = WeightType::f32});
  EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows),
            std::max(1e-4, 4 * fixture.noise));
  return decoder.model().unused_tensors();
}

void expect_logits(const GgufConversion& conversion, const reference::Fixture& fixture) {
  const TemporaryDirectory directory;
  EXPECT_EQ(expect_logits_in(directory.write("model.gguf", conversion.file()), fixture),
            std::vector<std::string>());
}

}  // namespace tp::test
