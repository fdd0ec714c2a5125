#include "model/config/reformer_config.h"

namespace tp {

void read_reformer(const JsonNode& fields, CheckpointConfig& config) {
  config.attn_layers = fields.list_or_empty("attn_layers", &JsonNode::string);
  if (config.attn_layers.empty()) return;
  fields.update_size({"local_attn_chunk_length"}, config.local_attn_chunk_length);
  fields.update_count({"local_num_chunks_before"}, config.local_num_chunks_before);
  fields.update_size({"lsh_attn_chunk_length"}, config.lsh_attn_chunk_length);
  fields.update_count({"lsh_num_chunks_before"}, config.lsh_num_chunks_before);
  fields.update_count({"lsh_num_chunks_after"}, config.lsh_num_chunks_after);
  fields.update_size({"num_hashes"}, config.num_hashes);
  if (const std::optional<JsonNode> buckets = fields.find("num_buckets")) {
    if (buckets->is_array())
      config.num_buckets = fields.list_or_empty("num_buckets", &JsonNode::size);
    else
      config.num_buckets = {buckets->size()};
  }
  fields.update_count({"hash_seed"}, config.hash_seed);
  if (!fields.boolean_or("axial_pos_embds", true)) return;
  config.axial_pos_shape = fields.has("axial_pos_shape")
                               ? fields.list_or_empty("axial_pos_shape", &JsonNode::size)
                               : std::vector<std::size_t>{64, 64};
  config.axial_pos_embds_dim = fields.has("axial_pos_embds_dim")
                                   ? fields.list_or_empty("axial_pos_embds_dim", &JsonNode::size)
                                   : std::vector<std::size_t>{64, 192};
}

}  // namespace tp
