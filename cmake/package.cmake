# What is installed, and the Debian package:
#   cmake -B build/package -G Ninja -DROCO_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr && cmake --build build/package
#   cd build/package && cpack

include(GNUInstallDirs)

install(TARGETS roco RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
configure_file(packaging/roco.service.in roco.service @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/roco.service packaging/roco.socket DESTINATION lib/systemd/system)
install(FILES roco.conf.example DESTINATION ${CMAKE_INSTALL_FULL_SYSCONFDIR}/roco RENAME roco.conf)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)

# Printed by the program itself, so not where it cannot run.
if(NOT CMAKE_CROSSCOMPILING)
  add_custom_command(OUTPUT roco.1 roco.bash
    COMMAND roco manual > roco.1
    COMMAND roco completion > roco.bash
    DEPENDS roco VERBATIM)
  add_custom_target(installed_texts ALL DEPENDS roco.1 roco.bash)
  install(FILES ${PROJECT_BINARY_DIR}/roco.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${PROJECT_BINARY_DIR}/roco.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME roco)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_PACKAGE_CONTACT "The roco authors <roco@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS passwd)
configure_file(packaging/conffiles.in conffiles @ONLY)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/conffiles ${PROJECT_SOURCE_DIR}/packaging/postinst
    ${PROJECT_SOURCE_DIR}/packaging/prerm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
