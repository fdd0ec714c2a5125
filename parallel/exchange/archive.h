// The control plane: rank 0 broadcasts objects as Boost.Serialization archives.
#pragma once

#include "parallel/exchange/collectives.h"
#include "tp/internal/require.h"

#include <array>
#include <cstring>
#include <new>
#include <sstream>
#include <string>

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>

namespace tp {

// Serializes an object. The archive may be binary, because all ranks run the same program on the same
// architecture.
template <class T>
std::string to_archive(const T& object) {
  std::ostringstream stream(std::ios::binary);
  boost::archive::binary_oarchive archive(stream, boost::archive::no_header);
  archive << object;
  return std::move(stream).str();
}

// Throws CommError if the bytes are not an archive of a T.
template <class T>
void from_archive(const std::string& bytes, T& object) {
  try {
    std::istringstream stream(bytes, std::ios::binary);
    boost::archive::binary_iarchive archive(stream, boost::archive::no_header);
    archive >> object;
  } catch (const std::bad_alloc&) {
    throw_error<CommError>(
        "out of memory while reading a control message of {} bytes; use more ranks or hosts, or a smaller "
        "`prefill_chunk` or `max_sequences`",
        bytes.size());
  } catch (const std::exception& error) {
    throw_error<CommError>(
        "cannot read a control message of {} bytes ({}); do all ranks run the same version of the program?",
        bytes.size(), error.what());
  }
}

// Copies rank 0's object to every other rank.
//
// The first broadcast has a fixed size and room for a short archive, so that a decode step needs no second
// broadcast. A longer archive is sent whole in a second broadcast.
template <class T>
void broadcast_object(Communicator& comm, T& object) {
  if (comm.size() == 1) return;
  constexpr std::size_t kInline = 2040;
  struct FirstMessage {
    std::uint64_t size = 0;
    std::array<char, kInline> bytes{};
  } first;

  std::string archive;
  if (comm.is_root()) {
    archive = to_archive(object);
    first.size = archive.size();
    std::memcpy(first.bytes.data(), archive.data(), std::min(kInline, archive.size()));
  }
  broadcast_bytes(comm, std::as_writable_bytes(std::span(&first, 1)));
  if (first.size > kInline) {
    archive.resize(first.size);
    broadcast_bytes(comm, std::as_writable_bytes(std::span(archive)));
  } else {
    archive.assign(first.bytes.data(), first.size);
  }
  if (!comm.is_root()) from_archive(archive, object);
}

}  // namespace tp
