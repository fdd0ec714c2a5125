#include "parallel/fail_together.h"

#include "parallel/agreement.h"

#include <new>

namespace tp {
namespace {

// What went wrong in `work`, or an empty string.
std::string error_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const AgreedError&) {
    throw;  // all ranks know already
  } catch (const std::bad_alloc&) {
    return "out of memory; use more ranks or hosts, or a smaller cache (--cache-tokens)";
  } catch (const std::exception& error) {
    return *error.what() != '\0' ? error.what() : "unknown error";
  }
}

}  // namespace

void fail_together(Communicator& comm, const std::function<void()>& work) {
  if (const std::optional<RankError> error = first_error(comm.exchange(), error_of(work)))
    throw AgreedError(error->text, error->rank);
}

}  // namespace tp
