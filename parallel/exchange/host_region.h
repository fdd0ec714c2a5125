// Memory that the ranks of one host share.
#pragma once

#include "tp/communicator.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tp {

// A zeroed region that each rank of a host maps, and counters to wait for each other. Linux allocates a page
// when a rank first writes to it, in the NUMA domain of this rank. The region is a memfd, so the size of
// /dev/shm is no limit.
class HostRegion {
 public:
  // Collective over `host`, ranks of `comm` on one host, ascending. On failure, at least one rank returns
  // null and stores the reason in `why`. All ranks must then agree not to use the region. Throws CommError.
  // `comm` must outlive this object.
  static std::unique_ptr<HostRegion> create(Communicator& comm, std::span<const std::size_t> host,
                                            std::size_t bytes, std::string& why);
  // Whether the ranks of each host can share memory, according to a small region. Collective over `comm`;
  // equal on every rank. `why`: the first rank's reason.
  static bool can_share(Communicator& comm, std::string& why);
  ~HostRegion();
  HostRegion(const HostRegion&) = delete;
  HostRegion& operator=(const HostRegion&) = delete;

  std::byte* data() const;

  // Asks Linux for huge pages where these bytes of the region lie, unless this rank has asked before. Shared
  // memory has small pages by default, even if the system allows huge pages for private memory. Call it when
  // the bytes are first written, because a huge page takes memory as a whole.
  void use_huge_pages(const std::byte* begin, std::size_t bytes);

  // Returns when every rank of the host has called synchronize(), and makes their earlier writes visible. The
  // call counts as an exchange in the communicator's statistics. Throws CommError.
  void synchronize();

 private:
  struct Counter;  // a rank's calls of synchronize()

  HostRegion(Communicator& comm, std::span<const std::size_t> host, std::size_t bytes);
  std::string map(int process, int descriptor);
  Counter& counter(std::size_t rank) const;
  bool has_called(std::size_t rank) const;
  void wait();

  Communicator& comm_;
  std::vector<std::size_t> host_;  // ranks of comm_
  std::size_t rank_ = 0;           // index of this rank in host_
  std::size_t bytes_;
  std::byte* mapped_ = nullptr;  // a counter for each rank, then the data
  std::vector<bool> is_huge_;    // [huge pages of the data] whether this rank has asked for the page
  std::uint64_t calls_ = 0;
};

}  // namespace tp
