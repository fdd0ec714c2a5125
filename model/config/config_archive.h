// Sends a CheckpointConfig to other ranks, as the document from which each rank reads it again.
#pragma once

#include "model/config/config.h"

#include <boost/serialization/split_free.hpp>
#include <boost/serialization/string.hpp>

namespace boost::serialization {

template <class Archive>
void save(Archive& archive, const tp::CheckpointConfig& config, unsigned /*version*/) {
  archive << config.document.text << config.document.file;
}

template <class Archive>
void load(Archive& archive, tp::CheckpointConfig& config, unsigned /*version*/) {
  tp::ConfigDocument document;
  archive >> document.text >> document.file;
  config = tp::parse_config(document.text, document.file);
}

}  // namespace boost::serialization

BOOST_SERIALIZATION_SPLIT_FREE(tp::CheckpointConfig)
