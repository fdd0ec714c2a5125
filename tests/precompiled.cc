// Has the headers of tp_test_headers compiled: a target must have a source.
