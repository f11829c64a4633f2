// Package browser opens every page of the console, of consent and of users' accounts in Chromium, of
// a gateway with real servers, clients and an issuer: at three widths, light and dark, with and without
// script, by the keyboard, and with names and texts that mean harm. axe-core looks for barriers. make
// browser installs what it needs and runs it; the screenshots are in .cache/console.
package browser
