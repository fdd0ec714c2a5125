// Scores of documents for queries, by any model that ranks. A classifier reads each document with its query.
// A listwise reranker reads many documents, and then the query, in one prompt. Callers need not know which.
#pragma once

#include "runtime/text/embedder.h"
#include "runtime/text/list_scores.h"
#include "tp/engine.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// A request for two texts together: in the model's template, or joined by its tokenizer. Throws RequestError,
// or CheckpointError if there is no template and the tokenizer does not support pairs.
Request pair_request(const Engine& engine, std::string_view first, std::string_view second);
// A request for two texts of a program of vLLM, which may have written the template itself. If `first` begins
// with the template's first line, it is the beginning of the prompt, `second` is the rest, and both may write
// control tokens.
Request prompt_or_pair_request(const Engine& engine, std::string_view first, std::string_view second);

// Whether a model ranks documents: a classifier with one label, or a listwise reranker.
bool can_rank(const EngineInfo& info);

// The vectors that a listwise reranker makes of one prompt's states (Request::states_at), which are those of
// the documents, and then the query's. From any thread of rank 0.
ListVectors list_vectors(const Engine& engine, std::span<const float> states);

// The rankings of one call. Add all documents, run the requests, and ask for the scores.
class Ranking {
 public:
  // `engine` must outlive this object. Throws ConfigError if the model does not rank.
  explicit Ranking(const Engine& engine);

  // Whether one prompt contains many documents.
  bool reads_lists() const { return marks_.has_value(); }

  // Adds documents of one query. Throws RequestError.
  void add(std::string_view query, std::span<const std::string> documents);
  // Adds a prompt that contains a query and a document. Throws RequestError for a listwise reranker.
  void add(Request prompt);
  // Adds two texts as prompt_or_pair_request does. For a listwise reranker, a query and a list of one
  // document.
  void add_pair_or_prompt(const std::string& first, const std::string& second);

  // The requests so far, which ask for states. The caller takes them.
  std::vector<Request>& requests() { return requests_; }
  // The place, among all documents, of the first document of request i.
  std::size_t first_document(std::size_t request) const { return first_documents_[request]; }

  // The scores of all documents, in order, from the states of all requests: logits, or cosines of a listwise
  // reranker. From any thread of rank 0.
  std::vector<double> scores(std::vector<std::vector<float>> states) const;
  // A score as other programs show it: the sigmoid of a logit; a cosine stays as it is.
  double relevance(double score) const;

 private:
  // The tokens whose states become vectors.
  struct Marks {
    TokenId document = 0;
    TokenId query = 0;
  };

  void add_request(Request request, std::size_t documents);
  void add_list(std::string_view query, std::span<const std::string> documents);
  void add_prompt(std::string_view query, std::span<const std::string> documents);
  std::string without_marks(std::string_view text) const;
  // Cuts a text after this many tokens. Returns the number of tokens that are left.
  std::size_t cut(std::string& text, std::size_t max) const;

  const Engine* engine_;
  std::optional<Marks> marks_{};  // unset: the model reads one document at a time
  std::vector<Request> requests_{};
  std::vector<std::size_t> first_documents_{};  // [requests]
  std::vector<std::size_t> prompts_{};          // number of prompts for each list, if it reads lists
  std::size_t documents_ = 0;
};

}  // namespace tp
