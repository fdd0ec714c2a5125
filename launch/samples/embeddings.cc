// Compares the first text with the other texts: prints the cosine of the angle between their embeddings.
//   mpirun -np 2 ./embeddings DIR "A cat sleeps." "A kitten naps." "Shares fell."
#include "tp/run.h"

#include <cmath>
#include <iostream>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

// The model's final hidden state after the last token, [state_size], scaled to length 1. Models that are
// trained for embeddings may use a different pooling: see the model's card.
std::vector<float> embedding_of(tp::Engine& engine, const std::string& text) {
  std::vector<float> state;
  const tp::Request request{.prompt = engine.encode(text), .max_tokens = 0, .pooling = tp::Pooling::last};
  engine.run(request, [&](const tp::Event& event) {
    if (const auto* pooled = std::get_if<tp::PooledHidden>(&event)) state = pooled->state;
  });
  const float length = std::sqrt(std::inner_product(state.begin(), state.end(), state.begin(), 0.0F));
  for (float& element : state) element /= length;
  return state;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "embeddings: expected a model's folder and texts\n";
    return 2;
  }
  return tp::run({.model = argv[1]}, [&](tp::Engine& engine) {
    const std::vector<float> first = embedding_of(engine, argv[2]);
    for (int i = 3; i < argc; ++i) {
      const std::vector<float> other = embedding_of(engine, argv[i]);
      std::cout << std::inner_product(first.begin(), first.end(), other.begin(), 0.0F) << "  " << argv[i]
                << '\n';
    }
    return 0;
  });
}
