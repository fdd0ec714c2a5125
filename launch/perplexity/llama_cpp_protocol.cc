#include "launch/perplexity/llama_cpp_protocol.h"

#include "launch/common/progress.h"
#include "model/files/json_text.h"
#include "parallel/machine/stopwatch.h"
#include "runtime/api/rounded.h"
#include "runtime/text/bos.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

std::vector<TokenId> chunk_of(std::span<const TokenId> tokens, std::size_t context, std::size_t index,
                              std::optional<TokenId> bos) {
  const auto chunk = tokens.subspan(index * context, context);
  std::vector<TokenId> ids(chunk.begin(), chunk.end());
  if (bos) ids.front() = *bos;
  return ids;
}

void require_fitting(std::size_t context, const Engine& engine) {
  const std::size_t max = engine.info().options.max_length;
  require<RequestError>(
      context <= max,
      "a context of {} tokens is longer than the {} of a sequence (max_position_embeddings, or "
      "--max-length); give a smaller --context",
      context, max);
}

// Calls use(row, next token) for the scored positions of a chunk.
template <class Use>
void for_each_row(Engine& engine, std::span<const TokenId> chunk, const Use& use) {
  const std::size_t first = chunk.size() / 2;
  engine.logits(chunk, [&](std::size_t position, std::span<const float> logits) {
    if (position < first || position + 1 >= chunk.size()) return;
    require<RequestError>(
        std::isfinite(log_sum_exp(logits)),
        "the model's logits after position {} are not finite; expected numbers, found NaN or "
        "infinity; check the checkpoint",
        position);
    use(logits, chunk[position + 1]);
  });
}

nlohmann::json json_of(const Estimate& estimate) {
  return {{"value", rounded(estimate.value, 8)}, {"error", rounded(estimate.error, 8)}};
}

nlohmann::json json_of(const Divergence& divergence) {
  nlohmann::json json = {{"base_perplexity", json_of(divergence.base_perplexity())},
                         {"log_ratio", json_of(divergence.log_ratio())},
                         {"mean_kld", json_of(divergence.divergence())},
                         {"rms_change", json_of(divergence.change())},
                         {"same_top", json_of(divergence.same_top())}};
  for (const auto& [name, part] : {std::pair("maximum", 1.0), std::pair("99.9", 0.999), std::pair("99", 0.99),
                                   std::pair("90", 0.9), std::pair("median", 0.5)})
    json["kld"][name] = rounded(divergence.divergence_quantile(part), 8);
  return json;
}

}  // namespace

std::vector<TokenId> ids_of_text(const Engine& engine, const std::string& text) {
  return engine.encode(MarkedText::input(text), true);
}

LlamaCppResult measure_chunks(Engine& engine, const LlamaCppOptions& options,
                              const std::vector<TokenId>& tokens, const std::string& name) {
  const std::size_t context = options.context;
  require_fitting(context, engine);
  require<RequestError>(
      tokens.size() >= 2 * context,
      "{}: {} tokens, expected at least {}, which is two chunks; give a longer text or a smaller "
      "--context",
      name, tokens.size(), 2 * context);
  const std::size_t all = tokens.size() / context;
  LlamaCppResult result{.context = context,
                        .chunks = options.chunks == 0 ? all : std::min(all, options.chunks)};
  const BaseShape shape{
      .context = context, .vocabulary = engine.info().config.vocab_size, .chunks = result.chunks};
  std::optional<BaseWriter> base;
  if (!options.base.empty())
    base.emplace(options.base, shape, std::span(tokens).first(result.chunks * context));
  const std::optional<TokenId> bos = bos_of(engine);
  const Stopwatch watch;
  ProgressBar bar("measuring perplexity");
  Mean nll;
  for (std::size_t i = 0; i < result.chunks; ++i) {
    const std::vector<TokenId> chunk = chunk_of(tokens, context, i, bos);
    if (base) {
      for_each_row(engine, chunk, [&](std::span<const float> logits, TokenId next) {
        base->write(base_row(logits));
        nll.add(log_sum_exp(logits) - logits[static_cast<std::size_t>(next)]);
      });
    } else {
      for (const double logprob : engine.logprobs(chunk, shape.first() + 1)) nll.add(-logprob);
    }
    bar.update(static_cast<double>(i + 1) / static_cast<double>(result.chunks));
  }
  if (base) base->finish();
  result.perplexity = exp_of(nll.estimate());
  result.tokens = nll.count();
  result.seconds = watch.seconds();
  return result;
}

LlamaCppResult compare_with_base(Engine& engine, const LlamaCppOptions& options) {
  BaseReader base(options.base);
  const BaseShape& shape = base.shape();
  const std::size_t vocabulary = engine.info().config.vocab_size;
  require_fitting(shape.context, engine);
  require<RequestError>(
      shape.vocabulary == vocabulary,
      "{}: predictions of {} tokens, expected the model's {}; compare models of one vocabulary", options.base,
      shape.vocabulary, vocabulary);
  LlamaCppResult result{.context = shape.context,
                        .chunks = options.chunks == 0 ? shape.chunks : std::min(shape.chunks, options.chunks),
                        .divergence = Divergence()};
  const std::optional<TokenId> bos = bos_of(engine);
  const Stopwatch watch;
  ProgressBar bar("comparing");
  for (std::size_t i = 0; i < result.chunks; ++i) {
    const std::vector<TokenId> chunk = chunk_of(base.tokens(), shape.context, i, bos);
    for_each_row(engine, chunk, [&](std::span<const float> logits, TokenId next) {
      result.divergence->add(base.next(), logits, next);
    });
    bar.update(static_cast<double>(i + 1) / static_cast<double>(result.chunks));
  }
  result.perplexity = result.divergence->perplexity();
  result.tokens = result.divergence->count();
  result.seconds = watch.seconds();
  return result;
}

std::string format_llama_cpp(const LlamaCppResult& result) {
  const std::string counts =
      fmt::format("{} tokens of {} chunks of {}\n", result.tokens, result.chunks, result.context);
  if (!result.divergence) {
    return fmt::format("Final estimate: PPL = {:.4f} +/- {:.5f}\n", result.perplexity.value,
                       result.perplexity.error) +
           counts;
  }
  const Divergence& divergence = *result.divergence;
  const auto line = [](const char* name, const Estimate& estimate, double unit = 1.0, const char* sign = "") {
    return fmt::format("{:<26}: {:10.6f} +/- {:.6f}{}\n", name, unit * estimate.value, unit * estimate.error,
                       sign);
  };
  std::string text =
      line("Mean PPL(Q)", result.perplexity) + line("Mean PPL(base)", divergence.base_perplexity()) +
      line("Mean ln(PPL(Q)/PPL(base))", divergence.log_ratio()) + line("Mean KLD", divergence.divergence());
  for (const auto& [name, part] :
       {std::pair("Maximum KLD", 1.0), std::pair("99.9% KLD", 0.999), std::pair("99.0% KLD", 0.99),
        std::pair("90.0% KLD", 0.9), std::pair("Median KLD", 0.5)})
    text += fmt::format("{:<26}: {:10.6f}\n", name, divergence.divergence_quantile(part));
  return text + line("RMS change of p", divergence.change(), 100.0, " %") +
         line("Same top p", divergence.same_top(), 100.0, " %") + counts;
}

std::string json_of(const LlamaCppResult& result, const EngineInfo& info, std::size_t ranks) {
  nlohmann::json object = {{"protocol", "llama.cpp"},
                           {"perplexity", rounded(result.perplexity.value, 8)},
                           {"perplexity_error", rounded(result.perplexity.error, 8)},
                           {"tokens", result.tokens},
                           {"chunks", result.chunks},
                           {"context", result.context},
                           {"weights", name_of(info.weights)},
                           {"kv_type", name_of(*info.options.kv_type)},
                           {"ranks", ranks},
                           {"seconds", rounded(result.seconds)}};
  if (result.divergence) object["divergence"] = json_of(*result.divergence);
  return json_text(object) + "\n";
}

}  // namespace tp
