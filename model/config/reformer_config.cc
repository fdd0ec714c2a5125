#include "model/config/reformer_config.h"

#include "model/config/checkpoint_config.h"

namespace tp {

void read_reformer(const JsonNode& fields, CheckpointConfig& config) {
  config.reformer.attn_layers = fields.list_or_empty("attn_layers", &JsonNode::string);
  if (config.reformer.attn_layers.empty()) return;
  fields.update_size({"local_attn_chunk_length"}, config.reformer.local_attn_chunk_length);
  fields.update_count({"local_num_chunks_before"}, config.reformer.local_num_chunks_before);
  fields.update_size({"lsh_attn_chunk_length"}, config.reformer.lsh_attn_chunk_length);
  fields.update_count({"lsh_num_chunks_before"}, config.reformer.lsh_num_chunks_before);
  fields.update_count({"lsh_num_chunks_after"}, config.reformer.lsh_num_chunks_after);
  fields.update_size({"num_hashes"}, config.reformer.num_hashes);
  if (const std::optional<JsonNode> buckets = fields.find("num_buckets")) {
    if (buckets->is_array())
      config.reformer.num_buckets = fields.list_or_empty("num_buckets", &JsonNode::size);
    else
      config.reformer.num_buckets = {buckets->size()};
  }
  fields.update_count({"hash_seed"}, config.reformer.hash_seed);
  if (!fields.boolean_or("axial_pos_embds", true)) return;
  config.reformer.axial_pos_shape = fields.has("axial_pos_shape")
                                        ? fields.list_or_empty("axial_pos_shape", &JsonNode::size)
                                        : std::vector<std::size_t>{64, 64};
  config.reformer.axial_pos_embds_dim = fields.has("axial_pos_embds_dim")
                                            ? fields.list_or_empty("axial_pos_embds_dim", &JsonNode::size)
                                            : std::vector<std::size_t>{64, 192};
}

}  // namespace tp
