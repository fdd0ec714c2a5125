// The endpoints of encoders: embeddings in OpenAI's format, and documents ranked by a cross-encoder in the
// format of Jina and Cohere.
#include "model/tokenizer/text/base64.h"
#include "runtime/api/api_call.h"
#include "runtime/api/openai_response.h"
#include "runtime/api/prompt_ids.h"
#include "runtime/serve/endpoints.h"
#include "runtime/serve/pooled_call.h"
#include "runtime/text/probabilities.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

namespace tp::endpoints {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostInputs = 2048;  // per call, like OpenAI

std::string model_asked_for(const Json& body) {
  const Json name = body.value("model", Json());
  return name.is_string() ? name.get<std::string>() : std::string();
}

// Returns a whole number of at least 1, or 0 if the member is absent.
std::size_t size_or_none(const Json& body, const char* name) {
  const Json value = body.value(name, Json());
  if (value.is_null()) return 0;
  require<RequestError>(value.is_number_unsigned() && value >= 1,
                        "`{}`: expected a whole number from 1, found {}", name,
                        value.dump(-1, ' ', false, Json::error_handler_t::replace));
  return value.get<std::size_t>();
}

// Reads a text, token ids, or a list of texts and lists of token ids.
std::vector<EncoderInput> inputs_of(const Json& body, const Embedder& embedder) {
  const Json input = body.value("input", Json());
  const bool is_one = input.is_string() || (input.is_array() && !input.empty() && input.front().is_number());
  const Json list = is_one ? Json::array({input}) : input;
  require<RequestError>(list.is_array() && !list.empty() && list.size() <= kMostInputs,
                        "`input`: expected a text, token ids, or a list of 1 to {} of them, found {}",
                        kMostInputs, list.is_array() ? fmt::format("{}", list.size()) : list.type_name());
  std::vector<EncoderInput> inputs;
  for (const Json& one : list)
    inputs.push_back(one.is_string() ? embedder.encode(one.get<std::string>())
                                     : EncoderInput{prompt_ids_of(one, "`input`")});
  return inputs;
}

std::string encoding_of(const Json& body) {
  const Json format = body.value("encoding_format", Json());
  if (format.is_null()) return "float";
  require<RequestError>(format == "float" || format == "base64",
                        "`encoding_format`: expected float or base64, found {}",
                        format.dump(-1, ' ', false, Json::error_handler_t::replace));
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

std::vector<std::string> documents_of(const Json& body) {
  const Json list = body.value("documents", Json());
  require<RequestError>(list.is_array() && !list.empty() && list.size() <= kMostInputs,
                        "`documents`: expected a list of 1 to {} texts, found {}", kMostInputs,
                        list.is_array() ? fmt::format("{}", list.size()) : list.type_name());
  std::vector<std::string> documents;
  for (const Json& document : list) {
    const Json text = document.is_object() ? document.value("text", Json()) : document;
    require<RequestError>(text.is_string(), "`documents`: expected texts, or objects with `text`, found {}",
                          text.type_name());
    documents.push_back(text.get<std::string>());
  }
  return documents;
}

}  // namespace

void embeddings(Service& service, const Exchange& exchange) {
  const Json body = parse_body(exchange->take_body());
  service.require_model(model_asked_for(body));
  const Embedder& embedder = embedder_of(service);
  const bool as_base64 = encoding_of(body) == "base64";
  const std::size_t dimensions = size_or_none(body, "dimensions");
  require<RequestError>(dimensions <= embedder.embedding_size(),
                        "`dimensions`: expected at most the model's {}, found {}", embedder.embedding_size(),
                        dimensions);
  std::vector<Request> requests;
  std::size_t tokens = 0;
  for (EncoderInput& input : inputs_of(body, embedder)) {
    tokens += input.ids.size();
    requests.push_back(embedder.make_request(std::move(input)));
  }
  PooledCall::start(
      service, exchange, std::move(requests), "input",
      [&service, &embedder, as_base64, dimensions, tokens](std::vector<std::vector<float>> states) {
        Json data = Json::array();
        for (std::vector<float>& state : states) {
          std::vector<float> embedding = embedder.embedding(std::move(state));
          if (dimensions != 0) {
            embedding.resize(dimensions);
            normalize(embedding);
          }
          data.push_back({{"object", "embedding"}, {"index", data.size()}});
          data.back()["embedding"] = as_base64 ? Json(base64_of(embedding)) : Json(embedding);
        }
        return Json{{"object", "list"},
                    {"data", std::move(data)},
                    {"model", service.model_name()},
                    {"usage", usage_of(tokens)}};
      });
}

void rerank(Service& service, const Exchange& exchange) {
  const Json body = parse_body(exchange->take_body());
  service.require_model(model_asked_for(body));
  const Engine& engine = *service.model.engine;
  const EngineInfo& info = engine.info();
  require<RequestError>(
      info.kind == ModelKind::classifier && info.config.labels.size() == 1,
      "cannot rank documents: expected a classifier of pairs with one label, found {}; use a "
      "server with such a model, or /v1/embeddings",
      describe(info.kind));
  const Json query = body.value("query", Json());
  require<RequestError>(query.is_string(), "`query`: expected a text, found {}", query.type_name());
  const std::vector<std::string> documents = documents_of(body);
  const std::size_t top = size_or_none(body, "top_n");
  const bool with_texts = body.value("return_documents", Json()) == true;
  std::vector<Request> requests;
  std::size_t tokens = 0;
  for (const std::string& document : documents) {
    requests.push_back(pair_request(engine, query.get<std::string>(), document));
    requests.back().pooling = info.head_pooling;
    tokens += requests.back().prompt.size();
  }
  PooledCall::start(
      service, exchange, std::move(requests), "documents",
      [&service, &engine, documents, top, with_texts, tokens](std::vector<std::vector<float>> states) {
        std::vector<double> relevance;
        for (std::vector<float>& state : states)
          relevance.push_back(probabilities_of(engine.sequence_head(std::move(state))).front());
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
                    {"model", service.model_name()},
                    {"results", std::move(results)},
                    {"usage", usage_of(tokens)}};
      });
}

}  // namespace tp::endpoints
