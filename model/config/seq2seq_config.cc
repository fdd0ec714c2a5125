#include "model/config/seq2seq_config.h"

#include "model/config/checkpoint_config.h"
#include "tp/internal/require.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

// T5's feed_forward_proj: an activation, or "gated-" and an activation, where gelu means the tanh
// approximation.
void read_feed_forward(const JsonNode& fields, CheckpointConfig& config) {
  constexpr std::string_view kGated = "gated-";
  if (!fields.has("feed_forward_proj")) return;
  const std::string projection = fields.string_or("feed_forward_proj", "");
  config.seq2seq.gated_mlp = projection.starts_with(kGated);
  config.hidden_act = config.seq2seq.gated_mlp ? projection.substr(kGated.size()) : projection;
  if (projection == "gated-gelu") config.hidden_act = "gelu_new";
}

}  // namespace

void read_seq2seq(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  config.seq2seq.encoder_layers =
      fields.size_or(fields.name_of({"encoder_layers", "num_layers"}), config.num_hidden_layers);
  config.seq2seq.encoder_attention_heads =
      fields.size_or("encoder_attention_heads", config.num_attention_heads);
  config.seq2seq.encoder_intermediate_size = fields.size_or("encoder_ffn_dim", config.intermediate_size);
  fields.update({"scale_embedding"}, config.seq2seq.scale_embedding);
  read_feed_forward(fields, config);
  require<ConfigError>(fields.has("d_kv") || config.hidden_size % config.seq2seq.encoder_attention_heads == 0,
                       "{}: hidden_size must be a multiple of encoder_attention_heads, found {} and {}; "
                       "check config.json",
                       where, config.hidden_size, config.seq2seq.encoder_attention_heads);
  const std::size_t decoder_vocabulary = fields.size_or("decoder_vocab_size", config.vocab_size);
  require<ConfigError>(decoder_vocabulary == config.vocab_size,
                       "{}: decoder_vocab_size must be vocab_size, {}, as encoder and decoder share their "
                       "embedding, found {}; use a model that shares it",
                       where, config.vocab_size, decoder_vocabulary);
}

}  // namespace tp
