// Tells several stories at the same time:
//   mpirun -np 2 ./stories DIR "Once upon a time" "One rainy morning"
#include "tp/run.h"

#include <iostream>
#include <map>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    std::cerr << "stories: expected a model's folder and beginnings of stories\n";
    return 2;
  }
  return tp::run({.model = arguments.front()}, [&](tp::Engine& engine) {
    std::map<tp::RequestId, std::string> stories;
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      tp::Request request{.prompt = engine.encode(arguments[i]), .max_tokens = 40};
      request.sampling = engine.info().default_sampling;
      request.sampling.seed = 7;
      stories[engine.submit(request)] = arguments[i];
    }
    // The engine computes all stories in the same steps.
    while (engine.has_work())
      for (const tp::TokenEvent& event : engine.step()) stories[event.request] += event.text;
    for (const auto& [request, text] : stories) std::cout << text << "\n\n";
    return 0;
  });
}
