# The sources of sampling and cache decisions, for runtime/CMakeLists.txt.
set(TP_SAMPLING_SOURCES block_manager.cc candidates.cc free_block_list.cc logit_ops.cc nucleus.cc sampler.cc
    shard_row.cc sharded_choice.cc token_history.cc vocab_cut.cc)
