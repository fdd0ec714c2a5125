// The endpoints of encoders: embeddings in OpenAI's format, documents ranked by a reranker in the format
// of Jina and Cohere, and scores of pairs of texts in vLLM's format.
#include "model/files/json_text.h"
#include "model/tokenizer/text/base64.h"
#include "runtime/api/api_call.h"
#include "runtime/api/openai_response.h"
#include "runtime/api/prompt_ids.h"
#include "runtime/serve/endpoints.h"
#include "runtime/serve/pooled_call.h"
#include "runtime/text/list_scores.h"
#include "runtime/text/ranking.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <bit>
#include <ctime>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tp::endpoints {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxInputs = 2048;  // per call, like OpenAI

std::string model_asked_for(const Json& body) {
  const Json name = body.value("model", Json());
  return name.is_string() ? name.get<std::string>() : std::string();
}

// The model that a request asks for.
struct AskedModel {
  AskedModel(const Service& service, const Json& body)
      : name(model_asked_for(body)), adapter(service.adapter_of(name)) {
    if (name.empty()) name = service.model_name();
    const Json own = body.value("adapter", Json());
    if (own.is_null()) return;
    require<RequestError>(own.is_string(), "`adapter`: expected a text, found {}", own.type_name());
    adapter = own.get<std::string>();
  }

  std::vector<Request> with_adapter(std::vector<Request> requests) const {
    for (Request& request : requests) request.adapter = adapter;
    return requests;
  }

  std::string name;  // for answers
  std::optional<std::string> adapter;
};

// Returns a whole number of at least 1, or 0 if the member is absent.
std::size_t size_or_none(const Json& body, const char* name) {
  const Json value = body.value(name, Json());
  if (value.is_null()) return 0;
  require<RequestError>(value.is_number_unsigned() && value >= 1,
                        "`{}`: expected a whole number from 1, found {}", name, json_text(value));
  return value.get<std::size_t>();
}

// Reads a text, token ids, or a list of texts and lists of token ids.
std::vector<Request> inputs_of(const Json& body, const Embedder& embedder) {
  const Json input = body.value("input", Json());
  const bool is_one = input.is_string() || (input.is_array() && !input.empty() && input.front().is_number());
  const Json list = is_one ? Json::array({input}) : input;
  require<RequestError>(list.is_array() && !list.empty() && list.size() <= kMaxInputs,
                        "`input`: expected a text, token ids, or a list of 1 to {} of them, found {}",
                        kMaxInputs, list.is_array() ? fmt::format("{}", list.size()) : list.type_name());
  std::vector<Request> inputs;
  for (const Json& one : list)
    inputs.push_back(one.is_string() ? embedder.encode(one.get<std::string>())
                                     : prompt_request(prompt_ids_of(one, "`input`")));
  return inputs;
}

// vLLM's fields that would change results.
constexpr const char* kNotHere[] = {"truncate_prompt_tokens", "embed_dtype", "messages",
                                    "mm_processor_kwargs"};

void refuse(const Json& body, std::span<const char* const> names) {
  for (const char* const name : names)
    require<RequestError>(body.value(name, Json()).is_null(),
                          "`{}`: expected a request without it, because this server does not support it",
                          name);
}

std::string encoding_of(const Json& body) {
  const Json format = body.value("encoding_format", Json());
  if (format.is_null()) return "float";
  require<RequestError>(format == "float" || format == "base64",
                        "`encoding_format`: expected float or base64, found {}", json_text(format));
  return format.get<std::string>();
}

// Little-endian float32 as base64.
std::string base64_of(const std::vector<float>& embedding) {
  std::string bytes;
  bytes.reserve(embedding.size() * sizeof(float));
  for (const float element : embedding) {
    const auto bits = std::bit_cast<std::uint32_t>(element);
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>((bits >> shift) & 0xFF));
  }
  return base64(bytes);
}

Json usage_of(std::size_t tokens) { return {{"prompt_tokens", tokens}, {"total_tokens", tokens}}; }

const Embedder& embedder_of(const Service& service) {
  require<RequestError>(service.model.embedder.has_value(), "{}", service.model.no_embedder);
  return *service.model.embedder;
}

std::vector<std::string> texts_of(const Json& list, const char* name) {
  require<RequestError>(list.is_array() && !list.empty() && list.size() <= kMaxInputs,
                        "`{}`: expected a list of 1 to {} texts, found {}", name, kMaxInputs,
                        list.is_array() ? fmt::format("{}", list.size()) : list.type_name());
  std::vector<std::string> texts;
  for (const Json& element : list) {
    const Json text = element.is_object() ? element.value("text", Json()) : element;
    require<RequestError>(text.is_string(), "`{}`: expected texts, or objects with `text`, found {}", name,
                          text.type_name());
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

// One side of the pairs: a text or a list, under one of vLLM's names.
std::vector<std::string> side_of(const Json& body, std::span<const char* const> names) {
  for (const char* const name : names) {
    const Json texts = body.value(name, Json());
    if (!texts.is_null()) return texts_of(texts.is_string() ? Json::array({texts}) : texts, name);
  }
  throw_error<RequestError>("`{}`: expected a text or a list of texts, found none", names.front());
}

// A text that is tokenized with each of `count` others may not make a small body large.
void check_repeated(const char* name, const std::string& text, std::size_t count) {
  constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  require<RequestError>(
      text.size() * count <= kMaxBytes,
      "`{}`: expected at most {} bytes with {} other texts, found {}; send them in several calls", name,
      kMaxBytes / count, count, text.size());
}

// Pairs of texts: one text with each of a list, or two lists of equal length.
struct Pairs {
  std::vector<std::string> first;
  std::vector<std::string> second;

  // The place of the first text of pair i.
  std::size_t first_of(std::size_t i) const { return first.size() == 1 ? 0 : i; }
};

Pairs pairs_of(const Json& body) {
  static constexpr const char* kFirst[] = {"text_1", "data_1", "queries"};
  static constexpr const char* kSecond[] = {"text_2", "data_2", "documents"};
  Pairs pairs{side_of(body, kFirst), side_of(body, kSecond)};
  require<RequestError>(pairs.first.size() == 1 || pairs.first.size() == pairs.second.size(),
                        "`text_1`: expected one text, or {} texts like `text_2`, found {}",
                        pairs.second.size(), pairs.first.size());
  if (pairs.first.size() == 1) check_repeated(kFirst[0], pairs.first[0], pairs.second.size());
  return pairs;
}

// Whether a score is the sigmoid of the model's logit, or the logit itself.
bool is_activated(const Json& body) {
  for (const char* const name : {"use_activation", "activation"}) {
    const Json value = body.value(name, Json());
    require<RequestError>(value.is_null() || value.is_boolean(), "`{}`: expected true or false, found {}",
                          name, value.type_name());
    if (value.is_boolean()) return value.get<bool>();
  }
  return true;
}

// The scores of all documents, from the states of the ranking's requests.
std::vector<double> shown_scores(const Ranking& ranking, std::vector<std::vector<float>> states,
                                 bool activated) {
  std::vector<double> scores = ranking.scores(std::move(states));
  if (activated) {
    for (double& score : scores) score = ranking.relevance(score);
  }
  return scores;
}

std::size_t count_tokens(const std::vector<Request>& requests) {
  std::size_t tokens = 0;
  for (const Request& request : requests) tokens += request.prompt.size();
  return tokens;
}

Json score_answer(const AskedModel& asked, const std::vector<double>& scores, std::size_t tokens) {
  Json data = Json::array();
  for (const double score : scores)
    data.push_back({{"index", data.size()}, {"object", "score"}, {"score", score}});
  return {{"id", new_response_id("score-")}, {"object", "list"},
          {"created", std::time(nullptr)},   {"model", asked.name},
          {"data", std::move(data)},         {"usage", usage_of(tokens)}};
}

// Scores of a model that reads both texts together. One text with each of a list is a query with its
// documents.
void score_together(Service& service, const Exchange& exchange, const Json& body, const AskedModel& asked) {
  const bool activated = is_activated(body);
  const Pairs pairs = pairs_of(body);
  Ranking ranking(*service.model.engine);
  if (ranking.reads_lists() && pairs.first.size() == 1) {
    ranking.add(pairs.first.front(), pairs.second);
  } else {
    for (std::size_t i = 0; i < pairs.second.size(); ++i)
      ranking.add_pair_or_prompt(pairs.first[pairs.first_of(i)], pairs.second[i]);
  }
  std::vector<Request> requests = std::move(ranking.requests());
  const std::size_t tokens = count_tokens(requests);
  PooledCall::start(
      service, exchange, asked.with_adapter(std::move(requests)), "text_2",
      [asked, ranking = std::move(ranking), tokens, activated](std::vector<std::vector<float>> states) {
        return score_answer(asked, shown_scores(ranking, std::move(states), activated), tokens);
      });
}

// Similarities of embeddings: the cosine of their angle.
void score_apart(Service& service, const Exchange& exchange, const Json& body, const AskedModel& asked) {
  const Embedder& embedder = embedder_of(service);
  Pairs pairs = pairs_of(body);
  std::vector<Request> requests;
  std::size_t tokens = 0;
  for (const std::vector<std::string>* side : {&pairs.first, &pairs.second}) {
    for (const std::string& text : *side) {
      requests.push_back(embedder.ask_for_state(embedder.encode(text)));
      tokens += requests.back().prompt.size();
    }
  }
  PooledCall::start(
      service, exchange, asked.with_adapter(std::move(requests)), "text_2",
      [asked, &embedder, tokens, pairs = std::move(pairs)](std::vector<std::vector<float>> states) {
        std::vector<std::vector<float>> embeddings;
        for (std::vector<float>& state : states) embeddings.push_back(embedder.embedding(std::move(state)));
        std::vector<double> scores;
        for (std::size_t i = 0; i < pairs.second.size(); ++i)
          scores.push_back(cosine(embeddings[pairs.first_of(i)], embeddings[pairs.first.size() + i]));
        return score_answer(asked, scores, tokens);
      });
}

}  // namespace

void embeddings(Service& service, const Exchange& exchange) {
  const Json body = parse_body(exchange->take_body());
  const AskedModel asked(service, body);
  const Embedder& embedder = embedder_of(service);
  const bool as_base64 = encoding_of(body) == "base64";
  const std::size_t dimensions = size_or_none(body, "dimensions");
  embedder.require_dimensions(dimensions);
  refuse(body, kNotHere);
  std::vector<Request> requests;
  std::size_t tokens = 0;
  for (Request& input : inputs_of(body, embedder)) {
    tokens += input.prompt.size();
    requests.push_back(embedder.ask_for_state(std::move(input)));
  }
  PooledCall::start(
      service, exchange, asked.with_adapter(std::move(requests)), "input",
      [asked, &embedder, as_base64, dimensions, tokens](std::vector<std::vector<float>> states) {
        Json data = Json::array();
        for (std::vector<float>& state : states) {
          const std::vector<float> embedding = embedder.embedding(std::move(state), dimensions);
          data.push_back({{"object", "embedding"}, {"index", data.size()}});
          data.back()["embedding"] = as_base64 ? Json(base64_of(embedding)) : Json(embedding);
        }
        return Json{{"object", "list"},
                    {"data", std::move(data)},
                    {"model", asked.name},
                    {"usage", usage_of(tokens)}};
      });
}

void rerank(Service& service, const Exchange& exchange) {
  const Json body = parse_body(exchange->take_body());
  const AskedModel asked(service, body);
  const EngineInfo& info = service.model.engine->info();
  refuse(body, kNotHere);
  require<RequestError>(
      can_rank(info),
      "cannot rank documents: expected a classifier of pairs with one label, or a listwise reranker, found "
      "{}; "
      "use a server with such a model, --task rank with a model that answers yes and no, or /v1/embeddings",
      describe(info.kind));
  const Json query = body.value("query", Json());
  require<RequestError>(query.is_string(), "`query`: expected a text, found {}", query.type_name());
  const std::vector<std::string> documents = texts_of(body.value("documents", Json()), "documents");
  const std::size_t top = size_or_none(body, "top_n");
  const bool with_texts = body.value("return_documents", Json()) == true;
  const bool activated = is_activated(body);
  check_repeated("query", query.get_ref<const std::string&>(), documents.size());
  Ranking ranking(*service.model.engine);
  ranking.add(query.get_ref<const std::string&>(), documents);
  std::vector<Request> requests = std::move(ranking.requests());
  const std::size_t tokens = count_tokens(requests);
  PooledCall::start(
      service, exchange, asked.with_adapter(std::move(requests)), "documents",
      [asked, ranking = std::move(ranking), documents, top, with_texts, activated,
       tokens](std::vector<std::vector<float>> states) {
        const std::vector<double> relevance = shown_scores(ranking, std::move(states), activated);
        std::vector<std::size_t> order(relevance.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return relevance[i]; });
        if (top != 0) order.resize(std::min(order.size(), top));
        Json results = Json::array();
        for (const std::size_t i : order) {
          results.push_back({{"index", i}, {"relevance_score", relevance[i]}});
          if (with_texts) results.back()["document"] = {{"text", documents[i]}};
        }
        return Json{{"id", new_response_id("rerank-")},
                    {"model", asked.name},
                    {"results", std::move(results)},
                    {"usage", usage_of(tokens)}};
      });
}

void score(Service& service, const Exchange& exchange) {
  const Json body = parse_body(exchange->take_body());
  const AskedModel asked(service, body);
  refuse(body, kNotHere);
  if (can_rank(service.model.engine->info())) return score_together(service, exchange, body, asked);
  score_apart(service, exchange, body, asked);
}

}  // namespace tp::endpoints
