// Requests to diffusion language models, and their events.
#pragma once

#include "tests/reference/diffusion_fixture.h"
#include "tests/runtime/engine/engine_run.h"

#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

inline Request request_of(const reference::DiffusionFixture& fixture, const reference::DiffusionCase& one) {
  Request request = greedy_request(fixture.prompt, one.max_tokens);
  request.unmasking = one.settings;
  return request;
}

// The events of a request.
struct Told {
  std::vector<std::vector<UnmaskedToken>> passes;
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::none;
  std::string error;
};

inline EventSink teller(std::map<int, Told>& told) {
  return [&told](const Event& event) {
    if (const auto* unmasked = std::get_if<TokensUnmasked>(&event)) {
      Told& one = told[unmasked->sample];
      EXPECT_EQ(unmasked->pass, one.passes.size() + 1);
      one.passes.push_back(unmasked->tokens);
    } else if (const auto* token = std::get_if<TokenEvent>(&event)) {
      Told& one = told[token->sample];
      EXPECT_EQ(one.reason, FinishReason::none) << "an event after the end";
      one.reason = token->finish_reason;
      one.error = token->error;
      if (token->error.empty()) one.tokens.push_back(token->token);
    }
  };
}

inline Told run_one(Engine& engine, Request request) {
  std::map<int, Told> told;
  engine.run(std::move(request), teller(told));
  return told[0];
}

// Returns the text before every pass, and at the end.
inline std::vector<std::vector<TokenId>> texts_of(const Told& told, std::vector<TokenId> text) {
  std::vector<std::vector<TokenId>> texts = {text};
  for (const std::vector<UnmaskedToken>& pass : told.passes) {
    for (const UnmaskedToken& token : pass) text.at(token.position) = token.id;
    texts.push_back(text);
  }
  return texts;
}

}  // namespace tp::test
