#pragma once

namespace tp {

// Memory for the report that memory has run out. The constructor does without if there is none.
class MemoryReserve {
 public:
  MemoryReserve();
  ~MemoryReserve() { release(); }
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  // Frees the memory, so that the caller can report the error.
  void release();

 private:
  void* memory_;
};

}  // namespace tp
