"""One headless page for each identity: Chromium, driven by Playwright, all of its traffic through a proxy of ours.

Playwright and Chromium are no part of this server; where one is missing, every action says what to install.
"""
