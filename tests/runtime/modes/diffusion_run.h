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
struct Received {
  std::vector<std::vector<UnmaskedToken>> passes;
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::none;
  std::string error;
};

inline EventSink teller(std::map<int, Received>& received) {
  return [&received](const Event& event) {
    if (const auto* unmasked = std::get_if<TokensUnmasked>(&event)) {
      Received& one = received[unmasked->sample];
      EXPECT_EQ(unmasked->pass, one.passes.size() + 1);
      one.passes.push_back(unmasked->tokens);
    } else if (const auto* token = std::get_if<TokenEvent>(&event)) {
      Received& one = received[token->sample];
      EXPECT_EQ(one.reason, FinishReason::none) << "an event after the end";
      one.reason = token->finish_reason;
      one.error = token->error;
      if (token->error.empty()) one.tokens.push_back(token->token);
    }
  };
}

inline Received run_one(Engine& engine, Request request) {
  std::map<int, Received> received;
  engine.run(std::move(request), teller(received));
  return received[0];
}

// Returns the text before every pass, and at the end.
inline std::vector<std::vector<TokenId>> texts_of(const Received& received, std::vector<TokenId> text) {
  std::vector<std::vector<TokenId>> texts = {text};
  for (const std::vector<UnmaskedToken>& pass : received.passes) {
    for (const UnmaskedToken& token : pass) text.at(token.position) = token.id;
    texts.push_back(text);
  }
  return texts;
}

}  // namespace tp::test
