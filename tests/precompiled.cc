// Compiles the headers of tp_test_headers, because a target must have a source.
