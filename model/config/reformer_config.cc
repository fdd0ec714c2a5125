#include "model/config/reformer_config.h"

namespace tp {

void read_reformer(const JsonNode& fields, ModelConfig& config) {
  config.attn_layers = fields.list_or_empty("attn_layers", &JsonNode::string);
  if (config.attn_layers.empty()) return;
  config.local_attn_chunk_length = fields.size_or("local_attn_chunk_length", config.local_attn_chunk_length);
  config.local_num_chunks_before = fields.count_or("local_num_chunks_before", config.local_num_chunks_before);
  config.lsh_attn_chunk_length = fields.size_or("lsh_attn_chunk_length", config.lsh_attn_chunk_length);
  config.lsh_num_chunks_before = fields.count_or("lsh_num_chunks_before", config.lsh_num_chunks_before);
  config.lsh_num_chunks_after = fields.count_or("lsh_num_chunks_after", config.lsh_num_chunks_after);
  config.num_hashes = fields.size_or("num_hashes", config.num_hashes);
  if (const std::optional<JsonNode> buckets = fields.find("num_buckets")) {
    if (buckets->is_array())
      config.num_buckets = fields.list_or_empty("num_buckets", &JsonNode::size);
    else
      config.num_buckets = {buckets->size()};
  }
  config.hash_seed = fields.count_or("hash_seed", config.hash_seed);
  if (!fields.boolean_or("axial_pos_embds", true)) return;
  config.axial_pos_shape = fields.has("axial_pos_shape")
                               ? fields.list_or_empty("axial_pos_shape", &JsonNode::size)
                               : std::vector<std::size_t>{64, 64};
  config.axial_pos_embds_dim = fields.has("axial_pos_embds_dim")
                                   ? fields.list_or_empty("axial_pos_embds_dim", &JsonNode::size)
                                   : std::vector<std::size_t>{64, 192};
}

}  // namespace tp
