#include "runtime/text/ranking.h"

#include "runtime/text/probabilities.h"
#include "tp/internal/require.h"
#include "tp/marked_text.h"

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <utility>

namespace tp {
namespace {

// The template with texts in place of their names. The texts cannot write control tokens.
MarkedText fill_in(std::string_view form,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> texts) {
  MarkedText prompt;
  while (true) {
    std::size_t place = form.size();
    std::pair<std::string_view, std::string_view> next;
    for (const auto& text : texts) {
      const std::size_t found = form.find(text.first);
      if (found < place) std::tie(place, next) = std::pair(found, text);
    }
    prompt.append(form.substr(0, place));
    if (place == form.size()) return prompt;
    prompt.append_input(next.second);
    form.remove_prefix(place + next.first.size());
  }
}

TokenId mark_of(const Engine& engine, const std::string& token) {
  const std::optional<TokenId> id = engine.find_token(token);
  require<ConfigError>(
      id.has_value(),
      "cannot rank documents with {}: expected a token \"{}\" in its vocabulary, found none; use "
      "the model's own tokenizer.json",
      engine.info().config.architecture, token);
  return *id;
}

}  // namespace

// Models without token types get no types for the second text, either.
Request pair_request(const Engine& engine, std::string_view first, std::string_view second) {
  if (const std::string& form = engine.info().config.pair_template; !form.empty())
    return prompt_request(engine.encode(fill_in(form, {{"{query}", first}, {"{document}", second}})));
  EncodedPair pair = engine.encode_pair(first, second);
  const bool has_types = engine.info().config.type_vocab_size > 1;
  return prompt_request(std::move(pair.ids),
                        has_types ? std::move(pair.token_types) : std::vector<std::uint8_t>());
}

Request prompt_or_pair_request(const Engine& engine, std::string_view first, std::string_view second) {
  const std::string& form = engine.info().config.pair_template;
  const std::string line = form.substr(0, form.find('\n'));
  if (line.empty() || !first.starts_with(line)) return pair_request(engine, first, second);
  return prompt_request(engine.encode(MarkedText(std::string(first).append(second))));
}

bool can_rank(const EngineInfo& info) {
  const bool scores_pairs = info.kind == ModelKind::classifier && info.config.labels.size() == 1;
  return scores_pairs || info.kind == ModelKind::list_reranker;
}

ListVectors list_vectors(const Engine& engine, std::span<const float> states) {
  ListVectors vectors;
  for (const std::size_t size = engine.info().state_size; !states.empty(); states = states.subspan(size)) {
    const std::span<const float> state = states.first(size);
    vectors.documents.push_back(engine.sequence_head({state.begin(), state.end()}));
  }
  vectors.query = std::move(vectors.documents.back());
  vectors.documents.pop_back();
  return vectors;
}

Ranking::Ranking(const Engine& engine) : engine_(&engine) {
  const EngineInfo& info = engine.info();
  require<ConfigError>(can_rank(info),
                       "cannot rank documents with {}: expected a model with one label, or a listwise "
                       "reranker, found {} labels; "
                       "use a model that scores pairs, or `tp-infer classify`",
                       info.config.architecture, info.config.labels.size());
  if (info.kind != ModelKind::list_reranker) return;
  const ListPrompt& form = info.config.list_prompt;
  marks_ = Marks{mark_of(engine, form.document_token), mark_of(engine, form.query_token)};
}

void Ranking::add_request(Request request, std::size_t documents) {
  if (!reads_lists()) request.pooling = engine_->info().head_pooling;
  requests_.push_back(std::move(request));
  first_documents_.push_back(documents_);
  documents_ += documents;
}

void Ranking::add(std::string_view query, std::span<const std::string> documents) {
  if (reads_lists()) return add_list(query, documents);
  for (const std::string& document : documents) add_request(pair_request(*engine_, query, document), 1);
}

void Ranking::add(Request prompt) {
  require<RequestError>(!reads_lists(),
                        "found token ids, expected a text: this model reads all documents in one prompt");
  add_request(std::move(prompt), 1);
}

void Ranking::add_pair_or_prompt(const std::string& first, const std::string& second) {
  if (reads_lists()) return add_list(first, {&second, 1});
  add_request(prompt_or_pair_request(*engine_, first, second), 1);
}

// The model's own code removes these texts, too. What is left on both sides of one may form another.
std::string Ranking::without_marks(std::string_view text) const {
  const ListPrompt& form = engine_->info().config.list_prompt;
  std::string rest;
  for (const char character : text) {
    rest.push_back(character);
    for (const std::string* const mark : {&form.document_token, &form.query_token}) {
      if (rest.ends_with(*mark)) rest.resize(rest.size() - mark->size());
    }
  }
  return rest;
}

std::size_t Ranking::cut(std::string& text, std::size_t max) const {
  const std::vector<TokenId> tokens = engine_->encode(MarkedText::input(text));
  if (tokens.size() <= max) return tokens.size();
  text = engine_->decode(std::span(tokens).first(max));
  return max;
}

// A prompt ends when it has max_documents, or no room for a longest document. The query is in it twice. The
// template's other tokens are not counted, as in the model's own code.
void Ranking::add_list(std::string_view query, std::span<const std::string> documents) {
  if (documents.empty()) return;
  const ListPrompt& form = engine_->info().config.list_prompt;
  std::string question = without_marks(query);
  const std::size_t asked = 2 * cut(question, form.max_query_tokens);
  const std::size_t longest = engine_->info().options.max_length;
  const std::size_t room = longest - std::min(longest, asked);
  std::vector<std::string> list;
  std::size_t left = room;
  prompts_.push_back(0);
  for (const std::string& document : documents) {
    list.push_back(without_marks(document));
    left -= std::min(left, cut(list.back(), form.max_document_tokens));
    const bool is_full = list.size() == form.max_documents || left <= form.max_document_tokens;
    if (!is_full && &document != &documents.back()) continue;
    add_prompt(question, std::exchange(list, {}));
    left = room;
  }
}

// Divides a list that does not fit together with its template.
void Ranking::add_prompt(std::string_view query, std::span<const std::string> documents) {
  const ListPrompt& form = engine_->info().config.list_prompt;
  MarkedText prompt =
      fill_in(form.begin, {{"{count}", std::to_string(documents.size())}, {"{query}", query}});
  for (std::size_t i = 0; i < documents.size(); ++i)
    prompt.append(fill_in(form.document, {{"{index}", std::to_string(i)}, {"{document}", documents[i]}}));
  prompt.append(fill_in(form.end, {{"{query}", query}}));
  Request request = prompt_request(engine_->encode(prompt));
  if (request.prompt.size() > engine_->info().options.max_length && documents.size() > 1) {
    const std::size_t half = documents.size() / 2;
    add_prompt(query, documents.first(half));
    return add_prompt(query, documents.subspan(half));
  }
  for (std::size_t place = 0; place < request.prompt.size(); ++place) {
    if (request.prompt[place] == marks_->document || request.prompt[place] == marks_->query)
      request.states_at.push_back(place);
  }
  require<ConfigError>(
      request.states_at.size() == documents.size() + 1,
      "cannot rank documents with {}: expected {} tokens {} and {} in a prompt, found {}; use the "
      "model's own tokenizer.json",
      engine_->info().config.architecture, documents.size() + 1, form.document_token, form.query_token,
      request.states_at.size());
  ++prompts_.back();
  add_request(std::move(request), documents.size());
}

std::vector<double> Ranking::scores(std::vector<std::vector<float>> states) const {
  std::vector<double> scores;
  if (!reads_lists()) {
    for (std::vector<float>& state : states)
      scores.push_back(engine_->sequence_head(std::move(state)).front());
    return scores;
  }
  auto state = states.begin();
  for (const std::size_t prompts : prompts_) {
    std::vector<ListVectors> vectors;
    for (std::size_t i = 0; i < prompts; ++i, ++state) vectors.push_back(list_vectors(*engine_, *state));
    const std::vector<double> of_query = list_scores(vectors);
    scores.insert(scores.end(), of_query.begin(), of_query.end());
  }
  return scores;
}

double Ranking::relevance(double score) const {
  return reads_lists() ? score : probabilities_of({static_cast<float>(score)}).front();
}

}  // namespace tp
