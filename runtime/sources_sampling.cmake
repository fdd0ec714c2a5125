# The sources of sampling and cache decisions, for runtime/CMakeLists.txt.
set(TP_SAMPLING_SOURCES block_manager.cc candidates.cc free_block_list.cc sampler.cc token_history.cc)
