#include "parallel/exchange/fail_together.h"

#include "parallel/exchange/agreement.h"
#include "parallel/machine/error_text.h"

namespace tp {
namespace {

// An error on which only some ranks have agreed.
class PartError final : public Error {
 public:
  explicit PartError(const AgreedError& error) : Error(error.what()), kind_(error.kind()) {}
  ErrorKind kind() const noexcept override { return kind_; }

 private:
  ErrorKind kind_;
};

// Runs `work` and returns its error: the ErrorKind as a byte, then the text. Empty if there is no error.
std::string error_of(const std::function<void()>& work) {
  const auto tell = [](ErrorKind kind, const char* text) {
    return static_cast<char>(kind) + std::string(*text != '\0' ? text : "unknown error");
  };
  try {
    work();
    return {};
  } catch (const AgreedError&) {
    throw;  // all ranks already have this error
  } catch (const Error& error) {
    return tell(error.kind(), error.what());
  } catch (const std::exception& error) {
    return tell(is_out_of_memory(error) ? ErrorKind::out_of_memory : ErrorKind::other, error_text(error));
  }
}

}  // namespace

void fail_together(Communicator& comm, const std::function<void()>& work) {
  if (const std::optional<RankError> error = first_error(comm.exchange(), error_of(work)))
    throw AgreedError(error->text.substr(1), error->rank, static_cast<ErrorKind>(error->text.front()));
}

void fail_among_some(const std::function<void()>& work) {
  try {
    work();
  } catch (const AgreedError& error) {
    throw PartError(error);
  }
}

}  // namespace tp
