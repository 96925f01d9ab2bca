"""PAGES: what is shown in a browser, a module for each way in the bar."""
