# tp::engine, the library for other programs: everything but tp-infer itself, as one archive or shared library with the
# headers of include/tp. Included by runtime/CMakeLists.txt.
get_property(TP_COMPONENTS GLOBAL PROPERTY TP_COMPONENTS)
list(APPEND TP_COMPONENTS tp_parallel tp_grids tp_kernels tp_files tp_regex tp_checkpoint tp_config tp_tokenizer tp_jinja tp_chat_template
     tp_model tp_constraint tp_chat tp_detokenizer tp_runtime)
list(TRANSFORM TP_COMPONENTS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE TP_ENGINE_OBJECTS)

add_library(tp_engine ${TP_ENGINE_OBJECTS})
add_library(tp::engine ALIAS tp_engine)
set_target_properties(tp_engine PROPERTIES OUTPUT_NAME tp-engine EXPORT_NAME engine LINKER_LANGUAGE CXX
                                           VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_compile_features(tp_engine PUBLIC cxx_std_20)
target_include_directories(tp_engine INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                               $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                               $<INSTALL_INTERFACE:include>)
# Public because tp/mpi.h includes <mpi.h>; the other dependencies are private.
target_link_libraries(tp_engine PUBLIC MPI::MPI_CXX
                      PRIVATE OpenMP::OpenMP_CXX Boost::serialization fmt::fmt PkgConfig::HWLOC PkgConfig::PCRE2
                              tp::sentencepiece PkgConfig::UTF8PROC ${CMAKE_DL_LIBS})
if(NOT TP_INSTALL)
  return()
endif()

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME library)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(TP_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tp-infer)
install(TARGETS tp_engine EXPORT tp-infer-targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN internal EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/include/tp/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tp)
install(EXPORT tp-infer-targets NAMESPACE tp:: DESTINATION ${TP_PACKAGE_DIR})
configure_package_config_file(tp-infer-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/tp-infer-config.cmake
                              INSTALL_DESTINATION ${TP_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tp-infer-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tp-infer-config.cmake sentencepiece.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/tp-infer-config-version.cmake DESTINATION ${TP_PACKAGE_DIR})

# For builds without CMake: g++ ... $(pkg-config --cflags --libs tp-infer). A program that links the archive must also link
# its dependencies; they are listed here, not as private ones, because --static would link all of them statically.
if(MPI_CXX_INCLUDE_DIRS MATCHES "mpich")
  set(TP_PC_REQUIRES mpich)
else()
  set(TP_PC_REQUIRES ompi-cxx)
endif()
set(TP_PC_LIBS "")
if(NOT BUILD_SHARED_LIBS)
  string(APPEND TP_PC_REQUIRES " hwloc libpcre2-8 libutf8proc")
  set(TP_PC_LIBS "-lsentencepiece -lboost_serialization -lfmt -fopenmp -ldl")
endif()
file(RELATIVE_PATH TP_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(tp-infer.pc.in ${CMAKE_CURRENT_BINARY_DIR}/tp-infer.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tp-infer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
