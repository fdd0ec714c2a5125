// Jina Reranker 3: Qwen 3, which reads a list of documents and then the query. A projector makes vectors of
// the states at marks after each document and after the query, and their cosines are scores. Source: Wang et
// al., jina-reranker-v3: Last but Not Late Interaction for Document Reranking, 2025, and its code.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec jina_reranker_spec(const CheckpointConfig& config) {
  using Activation = PooledLayerSpec::Activation;
  ModelSpec spec = qwen3_spec(config);
  spec.has_lm_head = false;
  const PooledLayerSpec hidden{.name = "projector.0",
                               .out_features = config.hidden_size / 2,
                               .bias = false,
                               .activation = Activation::relu};
  const PooledLayerSpec vector{
      .name = "projector.2", .out_features = config.encoder.projector_dim, .bias = false};
  spec.sequence_head = SequenceHeadSpec{.pooling = Pooling::last, .layers = {hidden, vector}};
  return spec;
}

ListPrompt jina_prompt() {
  return {
      .begin =
          "<|im_start|>system\nYou are a search relevance expert who can determine a ranking of the passages "
          "based on how relevant they are to the query. If the query is a question, how relevant a passage "
          "is depends on how well it answers the question. If not, try to analyze the intent of the query "
          "and assess how well each passage satisfies the intent. If an instruction is provided, you should "
          "follow the instruction when determining the ranking.<|im_end|>\n<|im_start|>user\nI will provide "
          "you with {count} passages, each indicated by a numerical identifier. Rank the passages based on "
          "their relevance to query: {query}\n",
      .document = "<passage id=\"{index}\">\n{document}<|embed_token|>\n</passage>\n",
      .end =
          "<query>\n{query}<|rerank_token|>\n</query><|im_end|>\n<|im_start|>assistant\n<think>\n\n"
          "</think>\n\n",
      .document_token = "<|embed_token|>",
      .query_token = "<|rerank_token|>",
      .max_documents = 125,
      .max_document_tokens = 2048,
      .max_query_tokens = 512};
}

}  // namespace

Family jina_reranker() {
  Family family = derived(qwen3(), "JinaForRanking", jina_reranker_spec);
  family.kind = ModelKind::list_reranker;
  family.gguf = {};
  family.reranker.clear();
  family.has_causal_body = true;
  family.defaults.encoder.projector_dim = 512;
  family.defaults.list_prompt = jina_prompt();
  return family;
}

}  // namespace tp::families
