// Facts about a model, for programs. Fields have the same names as in the checkpoint's config.json.
#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

// The prompt of a model that reads a list of documents, and then the query. {count}, {query}, {index} and
// {document} stand for the number of documents, the query, a document's place in the prompt, and its text.
struct ListPrompt {
  std::string begin{};
  std::string document{};  // for each document
  std::string end{};
  std::string document_token{};  // in `document`; the state at this token becomes the document's vector
  std::string query_token{};     // in `end`; the state at this token becomes the query's vector
  // Longer lists are divided among prompts. 0: the model has no such prompt.
  std::size_t max_documents = 0;
  std::size_t max_document_tokens = 0;  // longer documents are cut
  std::size_t max_query_tokens = 0;     // longer queries are cut

  bool operator==(const ListPrompt&) const = default;
};

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::size_t hidden_size = 0;
  std::size_t intermediate_size = 0;
  std::size_t num_hidden_layers = 0;
  std::size_t num_attention_heads = 0;
  std::size_t num_key_value_heads = 0;
  std::size_t head_dim = 0;
  std::size_t vocab_size = 0;
  std::size_t max_position_embeddings = 2048;
  std::size_t sliding_window = 0;        // in tokens; 0: none
  std::size_t num_experts = 0;           // per layer; 0: no mixture of experts
  std::size_t type_vocab_size = 0;       // number of token types; 0: none
  std::vector<TokenId> eos_token_ids{};  // may be empty
  std::vector<std::string> labels{};     // a classifier's labels (config.json: id2label)
  // Sizes to which embeddings may be cut (Matryoshka embeddings); empty: any.
  std::vector<std::size_t> matryoshka_dimensions{};
  // The beginning of texts to embed, for the task of an adapter that the checkpoint stores.
  std::string task_instruction{};
  // The prompt in which a classifier judges two texts: {query} and {document} stand for the texts.
  // Empty: the tokenizer joins the two texts.
  std::string pair_template{};
  ListPrompt list_prompt{};

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace tp
