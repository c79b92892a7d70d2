add_test(NAME check_includes COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/check_includes.py ${CMAKE_SOURCE_DIR})
add_test(NAME check_flags COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/check_flags.py ${CMAKE_BINARY_DIR})
add_test(NAME check_tree COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/check_tree.py ${CMAKE_SOURCE_DIR})
