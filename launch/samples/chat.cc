// A conversation: each line of standard input is a message.
//   mpirun -np 2 ./chat DIR
#include "tp/chat.h"

#include "tp/run.h"

#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "chat: expected a model's folder\n";
    return 2;
  }
  return tp::run({.model = argv[1]}, [&](tp::Engine& engine) {
    const tp::Chat chat(engine, argv[1]);
    tp::SamplingParams sampling = engine.info().default_sampling;
    sampling.temperature = 0.0F;  // the most likely answer, which is the same in every run
    std::vector<tp::ChatMessage> messages;
    for (std::string line; std::getline(std::cin, line);) {
      messages.push_back({"user", line});
      const tp::ChatTurn turn = chat.turn(messages, {.sampling = sampling});
      tp::AnswerReader answer = turn.reader();
      engine.run(turn.request, [&](const tp::Event& event) {
        // Other kinds of pieces are thinking and calls.
        for (const tp::MessagePiece& piece : answer.read(event))
          if (piece.kind == tp::MessagePiece::Kind::text) std::cout << piece.text << std::flush;
      });
      std::cout << '\n';
      messages.push_back({"assistant", answer.message().text});
    }
    return 0;
  });
}
